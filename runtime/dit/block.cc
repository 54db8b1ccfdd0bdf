// One transformer block of Wan: self-attention, cross-attention, feed-forward. Host-only.
#include "runtime/dit/block.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "runtime/nn/elementwise.h"
#include "runtime/nn/norm.h"
#include "runtime/nn/parallel.h"

namespace vsa::dit {
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

Activations::Activations(const WanConfig& config, int64_t tokens, bool gated)
    : num_tokens(tokens),
      x(tokens * config.width()),
      q(tokens * config.width()),
      k(tokens * config.width()),
      v(tokens * config.width()),
      attn(tokens * config.width()),
      gate(gated ? tokens * config.width() : 0),
      widest_(std::max(config.width(),
                       config.patch.volume() * std::max(config.in_channels, config.out_channels))),
      ffn_dim_(config.ffn_dim) {}

void Activations::reserve_scratch(int num_threads) {
  while (std::ssize(scratch_) < num_threads) {
    scratch_.push_back({.a = nn::Buffer(nn::kRowBlock * widest_),
                        .b = nn::Buffer(nn::kRowBlock * widest_),
                        .hidden = nn::Buffer(nn::kRowBlock * ffn_dim_)});
  }
}

Block::Block(nn::WeightLoader& loader, const WanConfig& config, int64_t index, bool gated)
    : config_(config), gated_(gated) {
  const int64_t width = config.width();
  const std::string prefix = fmt::format("blocks.{}.", index);
  const auto square = [&](const char* name) {
    return loader.linear(prefix + name, {.dims = {width, width}});
  };
  const auto norm = [&](const char* name) { return loader.tensor(prefix + name, {width}); };
  scale_shift_ = loader.tensor(prefix + "scale_shift_table", {1, 6, width});
  q_ = square("attn1.to_q");
  k_ = square("attn1.to_k");
  v_ = square("attn1.to_v");
  out_ = square("attn1.to_out.0");
  if (gated) gate_ = square("to_gate_compress");
  text_q_ = square("attn2.to_q");
  text_k_ = square("attn2.to_k");
  text_v_ = square("attn2.to_v");
  text_out_ = square("attn2.to_out.0");
  if (config.qk_norm) {
    norm_q_ = norm("attn1.norm_q.weight");
    norm_k_ = norm("attn1.norm_k.weight");
    text_norm_q_ = norm("attn2.norm_q.weight");
    text_norm_k_ = norm("attn2.norm_k.weight");
  }
  if (config.cross_attn_norm) {
    norm2_weight_ = norm("norm2.weight");
    norm2_bias_ = norm("norm2.bias");
  }
  up_ = loader.linear(prefix + "ffn.net.0.proj",
                      {.dims = {width, config.ffn_dim}, .activation = nn::Activation::kGeluTanh});
  down_ = loader.linear(prefix + "ffn.net.2", {.dims = {config.ffn_dim, width}});
}

Modulation Block::modulation(std::span<const float> timestep) const {
  const auto width = static_cast<size_t>(config_.width());
  const auto row = [&](size_t n, float offset) {
    std::vector<float> sum(width);
    for (size_t i = 0; i < width; ++i) {
      sum[i] = scale_shift_[n * width + i] + timestep[n * width + i] + offset;
    }
    return sum;
  };
  return {.shift1 = row(0, 0.0F),
          .scale1 = row(1, 1.0F),
          .gate1 = row(2, 0.0F),
          .shift2 = row(3, 0.0F),
          .scale2 = row(4, 1.0F),
          .gate2 = row(5, 0.0F)};
}

nn::KeyValue Block::text_keys(const float* text, int64_t rows) const {
  nn::Buffer k(rows * config_.width());
  nn::Buffer v(rows * config_.width());
  text_k_.forward(text, rows, k.data());
  rms_norm(k.data(), rows, text_norm_k_, config_.eps);
  text_v_.forward(text, rows, v.data());
  return {k.data(), v.data(), rows, config_.num_heads, config_.head_dim};
}

void Block::project(const Modulation& modulation, const nn::Rope& rope, Activations& act) const {
  const int64_t width = config_.width();
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
    q_.forward_block(n, rows.size(), q);
    rms_norm(q, rows.size(), norm_q_, config_.eps);
    rope.apply(q, rows.begin, rows.size(), config_.num_heads);
    float* const k = act.k.data() + at;
    k_.forward_block(n, rows.size(), k);
    rms_norm(k, rows.size(), norm_k_, config_.eps);
    rope.apply(k, rows.begin, rows.size(), config_.num_heads);
    v_.forward_block(n, rows.size(), act.v.data() + at);
    if (gated_) gate_.forward_block(n, rows.size(), act.gate.data() + at);
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
  // A checkpoint without gates was never taught the coarse branch: it selects tiles, no more.
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
  nn::parallel_rows(act.num_tokens, [&](const nn::RowBlock& rows) {
    auto& [a, b, hidden] = act.of_thread(rows.thread);
    const int64_t count = rows.size();
    float* const x = act.x.data() + rows.begin * width;
    out_.forward_block(act.attn.data() + rows.begin * width, count, a.data());
    nn::gated_residual(
        {.x = x, .y = a.data(), .rows = count, .width = width, .gate = modulation.gate1.data()});
    const float* m = x;
    if (config_.cross_attn_norm) {
      nn::layer_norm({.x = x,
                      .rows = count,
                      .width = width,
                      .eps = config_.eps,
                      .scale = norm2_weight_.data(),
                      .shift = norm2_bias_.data(),
                      .y = a.data()});
      m = a.data();
    }
    text_q_.forward_block(m, count, b.data());
    rms_norm(b.data(), count, text_norm_q_, config_.eps);
    nn::attend({.q = b.data(),
                .rows = count,
                .kv = text.kv,
                .scale = scale,
                .bias = text.bias.data(),
                .out = b.data()});
    text_out_.forward_block(b.data(), count, a.data());
    const auto size = static_cast<size_t>(count * width);
    nn::add({x, size}, {a.data(), size});
  });
}

bool Block::feed_forward(const Modulation& modulation, Activations& act) const {
  const int64_t width = config_.width();
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
    up_.forward_block(a.data(), count, hidden.data());
    down_.forward_block(hidden.data(), count, b.data());
    nn::gated_residual(
        {.x = x, .y = b.data(), .rows = count, .width = width, .gate = modulation.gate2.data()});
    if (!nn::all_finite({x, static_cast<size_t>(count * width)})) finite = false;
  });
  return finite;
}

}  // namespace vsa::dit
