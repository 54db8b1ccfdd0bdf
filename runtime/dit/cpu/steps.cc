// The steps of a pass on the CPU. Host-only.
#include "runtime/dit/cpu/steps.h"

#include <algorithm>
#include <numeric>

#include "runtime/nn/norm.h"
#include "runtime/nn/parallel.h"
#include "runtime/nn/patch.h"

namespace vsa::dit::cpu {
namespace {

/// Tiles that the rows of a lut keep.
int64_t count_kept(const ConstLut& lut) {
  const int64_t rows = lut.dims.batch * lut.dims.num_heads * lut.dims.num_q_tiles;
  return std::accumulate(lut.count, lut.count + rows, int64_t{0});
}

}  // namespace

CpuSteps::CpuSteps(const CpuModel& model, Grid grid, TilePlan plan)
    : model_(model),
      grid_(grid),
      rows_(std::move(plan)),
      rope_(grid, model.config_.head_dim, rows_.order),
      act_(model.config_, grid.num_tokens(), model.has_gates_) {}

Status CpuSteps::begin(const float* latents, float timestep) {
  const int64_t width = config().width();
  act_.reserve_scratch(nn::num_threads());
  modulations_ = model_.modulation_.at(timestep, act_.space);
  act_.space.clear();
  const nn::ReadyLinear embed = model_.patch_embedding_.ready(act_.space);
  const nn::PatchLayout layout{.channels = config().in_channels,
                               .grid = grid_,
                               .patch = config().patch,
                               .order = rows_.order};
  nn::parallel_rows(act_.num_tokens, [&](const nn::RowBlock& rows) {
    float* const patches = act_.of_thread(rows.thread).a.data();
    nn::patchify(layout, latents, rows.begin, rows.end, patches);
    embed.forward_block(patches, rows.size(), act_.x.data() + rows.begin * width);
  });
  return {};
}

Status CpuSteps::project(int64_t layer) {
  block(layer).project(modulation(layer), rope_, act_);
  return {};
}

Status CpuSteps::attend_self(int64_t layer, int64_t topk, int64_t* kept) {
  const int64_t num_tiles = plan().num_tiles();
  const int64_t num_heads = config().num_heads;
  SelfAttention how{.context = model_.context_, .plan = &plan(), .topk = topk, .lut_out = {}};
  LutBuffer lut;  // stays empty for a dense layer, which keeps all tiles
  if (kept != nullptr && topk < num_tiles) {
    lut = LutBuffer({.batch = 1, .num_heads = num_heads, .num_q_tiles = num_tiles, .pitch = topk});
    how.lut_out = lut.view();
  }
  VSA_TRY(block(layer).attend_self(how, act_));
  if (kept != nullptr) {
    *kept = how.lut_out.empty() ? num_heads * num_tiles * num_tiles : count_kept(how.lut_out);
  }
  return {};
}

Status CpuSteps::attend_text(int64_t layer, const TextContext& text) {
  const auto& keys = dynamic_cast<const CpuText&>(text);
  block(layer).attend_text(
      modulation(layer), {.kv = &keys.layers[static_cast<size_t>(layer)], .bias = keys.bias}, act_);
  return {};
}

Status CpuSteps::feed_forward(int64_t layer) {
  finite_ = block(layer).feed_forward(modulation(layer), act_);
  return {};
}

Status CpuSteps::end(float* velocity) {
  const int64_t width = config().width();
  act_.space.clear();
  const nn::ReadyLinear head = model_.head_.ready(act_.space);
  const nn::PatchLayout layout{.channels = config().out_channels,
                               .grid = grid_,
                               .patch = config().patch,
                               .order = rows_.order};
  nn::parallel_rows(act_.num_tokens, [&](const nn::RowBlock& rows) {
    auto& scratch = act_.of_thread(rows.thread);
    nn::layer_norm({.x = act_.x.data() + rows.begin * width,
                    .rows = rows.size(),
                    .width = width,
                    .eps = config().eps,
                    .scale = modulations_.head_scale.data(),
                    .shift = modulations_.head_shift.data(),
                    .y = scratch.a.data()});
    head.forward_block(scratch.a.data(), rows.size(), scratch.b.data());
    nn::unpatchify(layout, scratch.b.data(), rows.begin, rows.end, velocity);
  });
  return {};
}

Status CpuSteps::read_residual(std::span<float> x) {
  std::ranges::copy(act_.x.span(), x.begin());
  return {};
}

}  // namespace vsa::dit::cpu
