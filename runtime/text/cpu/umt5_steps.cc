// The umT5 text encoder on the CPU, in f32. Host-only.
#include "runtime/text/cpu/umt5_steps.h"

#include <algorithm>
#include <vector>

#include "runtime/nn/buffer.h"
#include "runtime/nn/convert.h"
#include "runtime/nn/elementwise.h"
#include "runtime/nn/isa.h"
#include "runtime/nn/linear.h"
#include "runtime/nn/norm.h"
#include "runtime/nn/parallel.h"
#include "runtime/nn/text_attention.h"
#include "runtime/text/relative_bucket.h"

namespace vsa::text::cpu {
namespace {

nn::Linear mapped(const nn::LinearWeights& weights,
                  nn::Activation activation = nn::Activation::kNone) {
  return nn::Linear(weights, activation, nn::Keep::kMapped);
}

struct Layer {
  explicit Layer(const Umt5LayerWeights& weights)
      : norm1(nn::values(weights.norm1)),
        norm2(nn::values(weights.norm2)),
        relative_bias(nn::values(weights.relative_bias)),
        q(mapped(weights.q)),
        k(mapped(weights.k)),
        v(mapped(weights.v)),
        out(mapped(weights.out)),
        gelu_in(mapped(weights.gelu_in, nn::Activation::kGeluTanh)),
        linear_in(mapped(weights.linear_in)),
        down(mapped(weights.down)) {}

  std::vector<float> norm1, norm2;   // [d_model]
  std::vector<float> relative_bias;  // [num_buckets, num_heads]
  nn::Linear q, k, v, out, gelu_in, linear_in, down;
};

/// Steps are synchronous: all work of a step is done when it returns.
class CpuUmt5Steps : public Umt5Steps {
 public:
  explicit CpuUmt5Steps(const Umt5Weights& weights)
      : config_(weights.config), final_norm_(nn::values(weights.final_norm)) {
    for (const Umt5LayerWeights& layer : weights.layers) layers_.emplace_back(layer);
  }

  Status begin(const float* rows, int64_t num_tokens) override {
    tokens_ = num_tokens;
    x_ = nn::Buffer(tokens_ * config_.d_model);
    n_ = nn::Buffer(x_.size());
    std::copy_n(rows, x_.size(), x_.data());
    return {};
  }

  Status attend(int64_t layer) override;
  Status feed_forward(int64_t layer) override;

  Status end(float* rows) override {
    norm(final_norm_, rows);
    return {};
  }

  Status read_residual(std::span<float> x) override {
    std::ranges::copy(x_.span(), x.begin());
    return {};
  }

 private:
  void norm(const std::vector<float>& weight, float* y) const {
    nn::rms_norm({.x = x_.data(),
                  .rows = tokens_,
                  .width = config_.d_model,
                  .eps = config_.eps,
                  .weight = weight.data(),
                  .y = y});
  }
  /// One product after another, so that one weight at a time is f32.
  void multiply(const nn::Linear& layer, const nn::Buffer& x, nn::Buffer& y) {
    space_.clear();
    layer.ready(space_).forward(x.data(), tokens_, y.data());
  }
  nn::Buffer position_bias(const Layer& layer) const;

  Umt5Config config_;
  std::vector<Layer> layers_;
  std::vector<float> final_norm_;
  nn::WeightSpace space_;
  int64_t tokens_ = 0;
  nn::Buffer x_, n_;  // [tokens, d_model]: the residual stream, and what a step makes of it
};

/// [num_heads, query, key]
nn::Buffer CpuUmt5Steps::position_bias(const Layer& layer) const {
  std::vector<int64_t> buckets;  // of key - query = 1 - tokens, ..., tokens - 1
  for (int64_t relative = 1 - tokens_; relative < tokens_; ++relative) {
    buckets.push_back(relative_bucket(relative, config_.num_buckets, config_.max_distance));
  }
  nn::Buffer bias(config_.num_heads * tokens_ * tokens_);
  for (int64_t h = 0; h < config_.num_heads; ++h) {
    for (int64_t i = 0; i < tokens_; ++i) {
      for (int64_t j = 0; j < tokens_; ++j) {
        const int64_t bucket = buckets[static_cast<size_t>(j - i + tokens_ - 1)];
        bias.data()[(h * tokens_ + i) * tokens_ + j] =
            layer.relative_bias[static_cast<size_t>(bucket * config_.num_heads + h)];
      }
    }
  }
  return bias;
}

Status CpuUmt5Steps::attend(int64_t index) {
  const Layer& layer = layers_[static_cast<size_t>(index)];
  const int64_t inner = config_.inner();
  nn::Buffer q(tokens_ * inner);
  nn::Buffer k(tokens_ * inner);
  nn::Buffer v(tokens_ * inner);
  norm(layer.norm1, n_.data());
  multiply(layer.q, n_, q);
  multiply(layer.k, n_, k);
  multiply(layer.v, n_, v);
  const nn::Buffer bias = position_bias(layer);
  const nn::KeyValue kv(k.data(), v.data(), tokens_, config_.num_heads, config_.d_kv);
  nn::parallel_rows(tokens_, [&](const nn::RowBlock& rows) {
    float* const at = q.data() + rows.begin * inner;
    nn::attend({.q = at,
                .rows = rows.size(),
                .kv = &kv,
                .scale = 1.0F,
                .bias = bias.data() + rows.begin * tokens_,
                .bias_head_stride = tokens_ * tokens_,
                .bias_row_stride = tokens_,
                .out = at});
  });
  multiply(layer.out, q, n_);
  nn::add(x_.span(), n_.span());
  return {};
}

Status CpuUmt5Steps::feed_forward(int64_t index) {
  const Layer& layer = layers_[static_cast<size_t>(index)];
  nn::Buffer gelu(tokens_ * config_.d_ff);
  nn::Buffer linear(tokens_ * config_.d_ff);
  norm(layer.norm2, n_.data());
  multiply(layer.gelu_in, n_, gelu);
  multiply(layer.linear_in, n_, linear);
  nn::multiply(gelu.span(), linear.span());
  multiply(layer.down, gelu, n_);
  nn::add(x_.span(), n_.span());
  return {};
}

}  // namespace

Result<std::unique_ptr<Umt5Steps>> make_steps(const Umt5Weights& weights) {
  VSA_TRY(nn::check_isa());
  return std::unique_ptr<Umt5Steps>(std::make_unique<CpuUmt5Steps>(weights));
}

}  // namespace vsa::text::cpu
