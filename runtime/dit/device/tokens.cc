// Token tensors in the buffers of the transformer's steps, and the norm of q and k. Host-only.
#include "runtime/dit/device/tokens.h"

#include "vsa/norm_rope_pool.h"

namespace vsa::dit::device {

Tensor part(void* data, DType dtype, const WanConfig& config, const Part& which) {
  const int64_t width = config.width();
  Tensor t;
  t.data = static_cast<std::byte*>(data) + which.index * width * size_bytes(dtype);
  t.dtype = dtype;
  t.shape = {1, config.num_heads, which.rows, config.head_dim};
  t.stride = {which.rows * which.of * width, config.head_dim, which.of * width, 1};
  return t;
}

ConstTensor vector(const void* data, const WanConfig& config) {
  if (data == nullptr) return {};
  return ConstTensor::bshd(data, DType::kF32,
                           {.num_heads = config.num_heads, .head_dim = config.head_dim});
}

Status norm_tokens(Memory& memory, const WanConfig& config, const TilePlan& plan, const Tensor& x,
                   const NormTokens& how) {
  const bool norm = how.weight != nullptr && !how.weight->empty();
  if (!norm && how.cos == nullptr && how.pooled == nullptr) return {};
  NormRopePoolArgs args{.x = x,
                        .plan = &plan,
                        .norm = norm ? NormOver::kAllHeads : NormOver::kNothing,
                        .eps = config.eps};
  if (norm) args.weight = vector(how.weight->data(), config);
  if (how.cos != nullptr) {
    const Dims angles{.seq_len = x.shape[2], .head_dim = config.head_dim / 2};
    args.cos = ConstTensor::bshd(how.cos->data(), DType::kF32, angles);
    args.sin = ConstTensor::bshd(how.sin->data(), DType::kF32, angles);
  }
  if (how.pooled != nullptr) {
    args.pooled = Tensor::bhsd(
        how.pooled->data(), DType::kF32,
        {.num_heads = config.num_heads, .seq_len = plan.num_tiles(), .head_dim = config.head_dim});
  }
  const double bytes = 2.0 * bytes_of(x) + bytes_of(args.cos) + bytes_of(args.sin);
  return memory.call({.kind = "norm_rope_pool", .bytes = bytes},
                     [&](const Context& context) { return norm_rope_pool(context, args); });
}

}  // namespace vsa::dit::device
