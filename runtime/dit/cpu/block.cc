// One transformer block of Wan on the CPU: self-attention, cross-attention, feed-forward.
// Host-only.
#include "runtime/dit/cpu/block.h"

#include <atomic>
#include <cmath>

#include "runtime/nn/convert.h"
#include "runtime/nn/elementwise.h"
#include "runtime/nn/norm.h"
#include "runtime/nn/parallel.h"

namespace vsa::dit::cpu {
namespace {

/// RMSNorm in place; nothing if the model has none.
void rms_norm(float* x, int64_t rows, const std::vector<float>& weight, float eps) {
  if (weight.empty()) return;
  nn::rms_norm({.x = x,
                .rows = rows,
                .width = std::ssize(weight),
                .eps = eps,
                .weight = weight.data(),
                .y = x});
}

}  // namespace

Block::Attention::Attention(const AttentionWeights& weights)
    : q(weights.q),
      k(weights.k),
      v(weights.v),
      out(weights.out),
      norm_q(nn::values(weights.norm_q)),
      norm_k(nn::values(weights.norm_k)) {}

Block::Block(const BlockWeights& weights, const WanConfig& config)
    : config_(config),
      gated_(!weights.gate.empty()),
      self_(weights.self),
      gate_(weights.gate),
      text_norm_weight_(nn::values(weights.text_norm_weight)),
      text_norm_bias_(nn::values(weights.text_norm_bias)),
      text_(weights.text),
      up_(weights.up, nn::Activation::kGeluTanh),
      down_(weights.down) {}

nn::KeyValue Block::text_keys(const float* text, int64_t rows, nn::WeightSpace& space) const {
  nn::Buffer k(rows * config_.width());
  nn::Buffer v(rows * config_.width());
  space.clear();
  text_.k.ready(space).forward(text, rows, k.data());
  rms_norm(k.data(), rows, text_.norm_k, config_.eps);
  space.clear();
  text_.v.ready(space).forward(text, rows, v.data());
  return {k.data(), v.data(), rows, config_.num_heads, config_.head_dim};
}

void Block::project(const Modulation& modulation, const nn::Rope& rope, Activations& act) const {
  const int64_t width = config_.width();
  act.space.clear();
  const nn::ReadyLinear to_q = self_.q.ready(act.space);
  const nn::ReadyLinear to_k = self_.k.ready(act.space);
  const nn::ReadyLinear to_v = self_.v.ready(act.space);
  const nn::ReadyLinear to_gate = gate_.ready(act.space);
  nn::parallel_rows(act.num_tokens, [&](const nn::RowBlock& rows) {
    float* const n = act.of_thread(rows.thread).a.data();
    const int64_t at = rows.begin * width;
    nn::layer_norm({.x = act.x.data() + at,
                    .rows = rows.size(),
                    .width = width,
                    .eps = config_.eps,
                    .scale = modulation.scale1.data(),
                    .shift = modulation.shift1.data(),
                    .y = n});
    float* const q = act.q.data() + at;
    to_q.forward_block(n, rows.size(), q);
    rms_norm(q, rows.size(), self_.norm_q, config_.eps);
    rope.apply(q, rows.begin, rows.size(), config_.num_heads);
    float* const k = act.k.data() + at;
    to_k.forward_block(n, rows.size(), k);
    rms_norm(k, rows.size(), self_.norm_k, config_.eps);
    rope.apply(k, rows.begin, rows.size(), config_.num_heads);
    to_v.forward_block(n, rows.size(), act.v.data() + at);
    if (gated_) to_gate.forward_block(n, rows.size(), act.gate.data() + at);
  });
}

Status Block::attend_self(const SelfAttention& how, Activations& act) const {
  const Dims dims{.batch = 1,
                  .num_heads = config_.num_heads,
                  .seq_len = act.num_tokens,
                  .head_dim = config_.head_dim};
  const auto input = [&](const nn::Buffer& buffer) {
    return ConstTensor::bshd(buffer.data(), DType::kF32, dims);
  };
  AttentionArgs args;
  args.q = input(act.q);
  args.k = input(act.k);
  args.v = input(act.v);
  // A checkpoint without gates was not trained with the coarse branch, so that branch only selects
  // tiles.
  args.gate_coarse = gated_ ? Gate::tensor(input(act.gate)) : Gate::zero();
  args.q_plan = how.plan;
  args.kv_plan = how.plan;
  args.select.topk = how.topk;
  args.out = Tensor::bshd(act.attn.data(), DType::kF32, dims);
  args.lut_out = how.lut_out;
  return attention_forward(how.context, args);
}

void Block::attend_text(const Modulation& modulation, const TextKeys& text,
                        Activations& act) const {
  const int64_t width = config_.width();
  const float scale = 1.0F / std::sqrt(static_cast<float>(config_.head_dim));
  act.space.clear();
  const nn::ReadyLinear self_out = self_.out.ready(act.space);
  const nn::ReadyLinear text_q = text_.q.ready(act.space);
  const nn::ReadyLinear text_out = text_.out.ready(act.space);
  nn::parallel_rows(act.num_tokens, [&](const nn::RowBlock& rows) {
    auto& [a, b, hidden] = act.of_thread(rows.thread);
    const int64_t count = rows.size();
    float* const x = act.x.data() + rows.begin * width;
    self_out.forward_block(act.attn.data() + rows.begin * width, count, a.data());
    nn::gated_residual(
        {.x = x, .y = a.data(), .rows = count, .width = width, .gate = modulation.gate1.data()});
    const float* m = x;
    if (config_.cross_attn_norm) {
      nn::layer_norm({.x = x,
                      .rows = count,
                      .width = width,
                      .eps = config_.eps,
                      .scale = text_norm_weight_.data(),
                      .shift = text_norm_bias_.data(),
                      .y = a.data()});
      m = a.data();
    }
    text_q.forward_block(m, count, b.data());
    rms_norm(b.data(), count, text_.norm_q, config_.eps);
    nn::attend({.q = b.data(),
                .rows = count,
                .kv = text.kv,
                .scale = scale,
                .bias = text.bias.data(),
                .out = b.data()});
    text_out.forward_block(b.data(), count, a.data());
    const auto size = static_cast<size_t>(count * width);
    nn::add({x, size}, {a.data(), size});
  });
}

bool Block::feed_forward(const Modulation& modulation, Activations& act) const {
  const int64_t width = config_.width();
  act.space.clear();
  const nn::ReadyLinear up = up_.ready(act.space);
  const nn::ReadyLinear down = down_.ready(act.space);
  std::atomic<bool> finite = true;
  nn::parallel_rows(act.num_tokens, [&](const nn::RowBlock& rows) {
    auto& [a, b, hidden] = act.of_thread(rows.thread);
    const int64_t count = rows.size();
    float* const x = act.x.data() + rows.begin * width;
    nn::layer_norm({.x = x,
                    .rows = count,
                    .width = width,
                    .eps = config_.eps,
                    .scale = modulation.scale2.data(),
                    .shift = modulation.shift2.data(),
                    .y = a.data()});
    up.forward_block(a.data(), count, hidden.data());
    down.forward_block(hidden.data(), count, b.data());
    nn::gated_residual(
        {.x = x, .y = b.data(), .rows = count, .width = width, .gate = modulation.gate2.data()});
    if (!nn::all_finite({x, static_cast<size_t>(count * width)})) finite = false;
  });
  return finite;
}

}  // namespace vsa::dit::cpu
