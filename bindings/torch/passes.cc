// torch.ops.vsa: the passes around attention, which change their first tensor. Host-only.
#include "bindings/torch/ops.h"

namespace vsa::torch_ops {
namespace {

NormOver norm_of(const std::string& name) {
  if (name == "none") return NormOver::kNothing;
  if (name == "head") return NormOver::kHead;
  if (name == "all_heads") return NormOver::kAllHeads;
  reject("norm_rope_pool", "norm", "none, head or all_heads", name);
}

ConstTensor optional_bshd(const Arguments& args, const char* name, const OptionalTensor& t) {
  return t ? ConstTensor(args.bshd(name, *t)) : ConstTensor();
}

}  // namespace

TorchTensor norm_rope_pool(const TorchTensor& x, const OptionalInts& grid, const Ints& tile_shape,
                           const OptionalInts& prefix, const std::string& norm, double eps,
                           const OptionalTensor& weight, const OptionalTensor& rstd,
                           const OptionalTensor& cos, const OptionalTensor& sin, bool pool) {
  const Arguments args("norm_rope_pool", x);
  const SharedPlan plan = args.plan(or_empty(grid), tile_shape, or_empty(prefix));
  NormRopePoolArgs call{.x = args.bshd("x", x),
                        .plan = plan.get(),
                        .norm = norm_of(norm),
                        .eps = static_cast<float>(eps),
                        .weight = optional_bshd(args, "weight", weight),
                        .rstd = optional_bshd(args, "rstd", rstd),
                        .cos = optional_bshd(args, "cos", cos),
                        .sin = optional_bshd(args, "sin", sin)};
  TorchTensor pooled =
      pool ? new_tensor(x, {x.size(0), x.size(2), plan->num_tiles(), x.size(3)}, tile_dtype(x))
           : new_tensor(x, {0}, tile_dtype(x));
  if (pool) call.pooled = args.bhsd("pooled", pooled);
  run<NormRopePoolArgs>(vsa::norm_rope_pool, x, call);
  return pooled;
}

TorchTensor residual_norm(const TorchTensor& x, const OptionalTensor& y, const OptionalTensor& gate,
                          const OptionalTensor& scale, const OptionalTensor& shift, double eps,
                          bool norm, std::optional<ScalarType> out_dtype) {
  const Arguments args("residual_norm", x);
  ResidualNormArgs call{.x = args.bshd("x", x),
                        .y = optional_bshd(args, "y", y),
                        .gate = optional_bshd(args, "gate", gate),
                        .scale = optional_bshd(args, "scale", scale),
                        .shift = optional_bshd(args, "shift", shift),
                        .eps = static_cast<float>(eps)};
  const ScalarType dtype = out_dtype.value_or(y ? y->scalar_type() : x.scalar_type());
  if (!norm) {
    run<ResidualNormArgs>(vsa::residual_norm, x, call);
    return new_tensor(x, {0}, dtype);
  }
  const auto sizes = x.sizes();
  TorchTensor out = new_tensor(x, {sizes.begin(), sizes.end()}, dtype);
  call.out = args.bshd("out", out);
  run<ResidualNormArgs>(vsa::residual_norm, x, call);
  return out;
}

}  // namespace vsa::torch_ops
