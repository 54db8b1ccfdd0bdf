// How much of a device's memory a transformer takes: the sums of what model.cc and steps.cc take.
// Host-only.
#include "runtime/dit/device/memory_needed.h"

#include <algorithm>

#include "runtime/device/streamed_layers.h"

namespace vsa::dit::device {
namespace {

constexpr int64_t kF32 = 4, kIndex = 4;
constexpr int64_t kRun = 64;                      // tokens, as runs() cuts them
constexpr int64_t kProducts = int64_t{32} << 20;  // the largest workspace of `linear`

int64_t linear_bytes(const nn::LinearWeights& layer, int64_t token, int64_t bias) {
  return layer.empty() ? 0 : layer.weight.num_elements() * token + layer.dims.out * bias;
}

/// Calls visit(layer) for the linear layers of a block and visit(norm) for its vectors in f32.
template <class Visit>
void for_each_weight(const BlockWeights& b, Visit& visit) {
  for (const nn::LinearWeights* layer :
       {&b.self.q, &b.self.k, &b.self.v, &b.self.out, &b.gate, &b.text.q, &b.text.k, &b.text.v,
        &b.text.out, &b.up, &b.down}) {
    visit(*layer);
  }
  for (const nn::Weight* norm : {&b.self.norm_q, &b.self.norm_k, &b.text.norm_q, &b.text.norm_k,
                                 &b.text_norm_weight, &b.text_norm_bias}) {
    visit(*norm);
  }
}

/// Bytes of a block's arrays, each rounded up to a multiple.
class BlockBytes {
 public:
  BlockBytes(const BlockWeights& block, int64_t token, int64_t multiple)
      : token_(token), multiple_(multiple) {
    for_each_weight(block, *this);
  }
  void operator()(const nn::LinearWeights& layer) {
    if (layer.empty()) return;
    add(layer.weight.num_elements() * token_);
    add(layer.dims.out * token_);
  }
  void operator()(const nn::Weight& norm) { add(norm.empty() ? 0 : norm.num_elements() * kF32); }
  int64_t sum() const { return sum_; }

 private:
  void add(int64_t bytes) { sum_ += (bytes + multiple_ - 1) / multiple_ * multiple_; }
  int64_t token_, multiple_, sum_ = 0;
};

int64_t weight_bytes(const WanWeights& weights, const MemoryQuestion& q, int64_t token) {
  const int64_t around =
      linear_bytes(weights.patch_embedding, token, kF32) + linear_bytes(weights.head, token, kF32) +
      linear_bytes(weights.text_in, token, token) + linear_bytes(weights.text_out, token, token);
  if (q.offload) return around + 2 * streamed_layer_bytes(weights, q.token_dtype);
  int64_t blocks = 0;
  for (const BlockWeights& b : weights.blocks) blocks += BlockBytes(b, token, 1).sum();
  return around + blocks;
}

int64_t text_bytes(const WanConfig& config, const MemoryQuestion& q, int64_t token) {
  return q.text_rows * q.num_prompts * config.num_layers * 2 * config.width() * token;
}

/// What preparing a prompt takes besides, before the steps are there.
int64_t text_scratch_bytes(const WanConfig& config, const MemoryQuestion& q, int64_t token) {
  return q.text_rows * (2 * config.width() + config.text_dim) * token;
}

int64_t step_bytes(const WanWeights& weights, const MemoryQuestion& q, int64_t token) {
  const WanConfig& c = weights.config;
  const int64_t tokens = q.grid.num_tokens();
  const int64_t width = c.width();
  const int64_t wide = std::max((weights.has_gates ? 4 : 3) * width, c.ffn_dim);
  const int64_t patch = c.patch.volume();
  const int64_t rows = c.num_heads * q.num_tiles;
  const int64_t runs = (tokens + kRun - 1) / kRun;
  const int64_t text_runs = (q.text_rows + kRun - 1) / kRun;
  const int64_t per_token = width * kF32 + (3 * width + wide) * token +
                            c.in_channels * patch * token + c.out_channels * patch * kF32 +
                            c.head_dim * kF32;  // cos and sin
  const bool dense = q.topk == q.num_tiles && !weights.has_gates;
  const int64_t tables = c.num_heads * runs * ((dense ? runs : 0) + text_runs + 2) * kIndex;
  return tokens * per_token + 2 * rows * c.head_dim * kF32 + (6 * c.num_layers + 2) * width * kF32 +
         tables;
}

/// Scores, means, outputs of tiles and the list, as the operator holds them.
int64_t operator_bytes(const WanConfig& c, const MemoryQuestion& q) {
  const int64_t rows = c.num_heads * q.num_tiles;
  return rows * (q.num_tiles * kF32 + 4 * c.head_dim * kF32 + 2 * q.topk * kIndex);
}

}  // namespace

int64_t streamed_layer_bytes(const WanWeights& weights, DType token_dtype) {
  int64_t most = 0;
  for (const BlockWeights& b : weights.blocks) {
    most = std::max(
        most,
        BlockBytes(b, size_bytes(token_dtype), vsa::device::StreamedLayers::kAlignment).sum());
  }
  return most;
}

int64_t memory_needed_bytes(const WanWeights& weights, const MemoryQuestion& question) {
  const int64_t token = size_bytes(question.token_dtype);
  return weight_bytes(weights, question, token) + text_bytes(weights.config, question, token) +
         std::max(step_bytes(weights, question, token),
                  text_scratch_bytes(weights.config, question, token)) +
         std::max(operator_bytes(weights.config, question), kProducts);
}

}  // namespace vsa::dit::device
