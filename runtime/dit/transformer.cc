// The Wan video transformer in f32. Host-only.
#include "runtime/dit/transformer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "runtime/dit/tensor_names.h"
#include "runtime/nn/elementwise.h"
#include "runtime/nn/norm.h"
#include "runtime/nn/parallel.h"
#include "runtime/nn/patch.h"
#include "runtime/nn/timestep.h"

namespace vsa::dit {
namespace {

/// Milliseconds since the last call, or since construction.
class Lap {
 public:
  double ms() {
    const auto now = std::chrono::steady_clock::now();
    const double passed = std::chrono::duration<double, std::milli>(now - before_).count();
    before_ = now;
    return passed;
  }

 private:
  std::chrono::steady_clock::time_point before_ = std::chrono::steady_clock::now();
};

/// Gates in every layer, or in none: some would be a damaged file.
Result<bool> find_gates(const nn::WeightLoader& loader, int64_t num_layers) {
  int64_t gates = 0;
  for (int64_t n = 0; n < num_layers; ++n) {
    if (loader.has(fmt::format("blocks.{}.to_gate_compress.weight", n))) ++gates;
  }
  if (gates != 0 && gates != num_layers) {
    return io_error(
        fmt::format("[load] transformer: to_gate_compress: expected in 0 or {} layers, got {}",
                    num_layers, gates));
  }
  return gates == num_layers;
}

/// Tiles that the rows of a lut keep.
int64_t count_kept(const ConstLut& lut) {
  const int64_t rows = lut.dims.batch * lut.dims.num_heads * lut.dims.num_q_tiles;
  return std::accumulate(lut.count, lut.count + rows, int64_t{0});
}

nn::PatchLayout layout(int64_t channels, const Grid& grid, const nn::PatchShape& patch) {
  return {.channels = channels, .grid = grid, .patch = patch};
}

}  // namespace

Result<WanTransformer> WanTransformer::load(const WanConfig& config,
                                            const io::Checkpoint& checkpoint, LoadReport& report) {
  std::vector<std::string> names;
  for (const auto& [name, view] : checkpoint.tensors()) names.push_back(name);
  const Result<Naming> naming = detect_naming(names);
  if (!naming.ok()) return naming.status();
  nn::WeightLoader loader(checkpoint, "transformer",
                          [&](std::string_view name) { return diffusers_name(name, *naming); });
  // Before anything is sized by num_layers, which a wrong config may put at 2^31.
  const std::string last = fmt::format("blocks.{}.scale_shift_table", config.num_layers - 1);
  if (!loader.has(last)) {
    return io_error(
        fmt::format("[load] transformer: expected {} layers (num_layers), got none of {}",
                    config.num_layers, last));
  }
  const Result<bool> gated = find_gates(loader, config.num_layers);
  if (!gated.ok()) return gated.status();

  WanTransformer model;
  model.config_ = config;
  model.has_gates_ = *gated;
  const int64_t width = config.width();
  const auto& patch = config.patch;
  const auto linear = [&](const char* name, nn::LinearDims dims,
                          nn::Activation activation = nn::Activation::kNone) {
    return loader.linear(name, {.dims = dims, .activation = activation});
  };
  model.patch_embedding_ = loader.linear(
      "patch_embedding", {.dims = {config.in_channels * patch.volume(), width},
                          .weight_shape = {width, config.in_channels, patch.f, patch.h, patch.w}});
  model.text_in_ = linear("condition_embedder.text_embedder.linear_1", {config.text_dim, width},
                          nn::Activation::kGeluTanh);
  model.text_out_ = linear("condition_embedder.text_embedder.linear_2", {width, width});
  model.time_in_ = linear("condition_embedder.time_embedder.linear_1", {config.freq_dim, width},
                          nn::Activation::kSilu);
  model.time_out_ = linear("condition_embedder.time_embedder.linear_2", {width, width});
  model.time_proj_ = linear("condition_embedder.time_proj", {width, 6 * width});
  for (int64_t n = 0; n < config.num_layers; ++n) {
    model.blocks_.emplace_back(loader, config, n, *gated);
  }
  model.head_scale_shift_ = loader.tensor("scale_shift_table", {1, 2, width});
  model.head_ = linear("proj_out", {width, config.out_channels * patch.volume()});

  Result<nn::LoadSummary> summary = loader.finish();
  if (!summary.ok()) return summary.status();
  report = {.summary = *summary, .naming = std::string(name(*naming)), .has_gates = *gated};
  return model;
}

WanTransformer::Workspace::Workspace(const WanTransformer& model, Grid grid_, TilePlan plan_)
    : grid(grid_),
      plan(std::move(plan_)),
      rope(grid, model.config_.head_dim),
      act(model.config_, grid.num_tokens(), model.has_gates_) {}

TextContext WanTransformer::prepare_text(const text::TextEmbedding& text) const {
  // All padding rows are zeros: one of them stands for the rest.
  const int64_t padding = text.num_rows - text.num_valid;
  const int64_t keys = text.num_valid + (padding > 0 ? 1 : 0);
  nn::Buffer hidden(keys * config_.width());
  nn::Buffer context(keys * config_.width());
  text_in_.forward(text.rows.data(), keys, hidden.data());
  text_out_.forward(hidden.data(), keys, context.data());
  TextContext prepared;
  prepared.bias.assign(static_cast<size_t>(keys), 0.0F);
  if (padding > 0) prepared.bias.back() = std::log(static_cast<float>(padding));
  for (const Block& block : blocks_) {
    prepared.layers.push_back(block.text_keys(context.data(), keys));
  }
  return prepared;
}

Status WanTransformer::run_layer(size_t n, const ForwardArgs& args, std::span<const float> timestep,
                                 Workspace& workspace, LayerStats& stats) const {
  const Block& block = blocks_[n];
  Activations& act = workspace.act;
  const Modulation modulation = block.modulation(timestep);
  Lap lap;
  block.project(modulation, workspace.rope, act);
  stats.qkv_ms += lap.ms();

  const int64_t num_tiles = workspace.plan.num_tiles();
  const int64_t rows = config_.num_heads * num_tiles;
  SelfAttention how{
      .context = args.context, .plan = &workspace.plan, .topk = args.topk[n], .lut_out = {}};
  LutBuffer lut;  // of a dense layer there is nothing to count
  if (how.topk < num_tiles) {
    lut = LutBuffer(
        {.batch = 1, .num_heads = config_.num_heads, .num_q_tiles = num_tiles, .pitch = how.topk});
    how.lut_out = lut.view();
  }
  VSA_TRY(block.attend_self(how, act));
  stats.kept_tiles += how.lut_out.empty() ? rows * num_tiles : count_kept(how.lut_out);
  stats.all_tiles += rows * num_tiles;
  stats.attention_ms += lap.ms();

  block.attend_text(modulation, {.kv = &args.text->layers[n], .bias = args.text->bias}, act);
  stats.cross_ms += lap.ms();
  const bool finite = block.feed_forward(modulation, act);
  stats.ffn_ms += lap.ms();
  if (!finite) {
    return Status(StatusCode::kInternal,
                  fmt::format("layer {}: expected finite values, got NaN or infinity", n));
  }
  return {};
}

Status WanTransformer::forward(const ForwardArgs& args, Workspace& workspace,
                               std::span<LayerStats> stats) const {
  const int64_t width = config_.width();
  Activations& act = workspace.act;
  act.reserve_scratch(nn::num_threads());
  std::vector<float> frequencies(static_cast<size_t>(config_.freq_dim));
  std::vector<float> hidden(static_cast<size_t>(width));
  std::vector<float> temb(static_cast<size_t>(width));
  std::vector<float> projected(static_cast<size_t>(6 * width));
  nn::timestep_embedding(args.timestep, frequencies);
  time_in_.forward(frequencies.data(), 1, hidden.data());
  time_out_.forward(hidden.data(), 1, temb.data());
  hidden = temb;
  nn::silu(hidden);
  time_proj_.forward(hidden.data(), 1, projected.data());

  const nn::PatchLayout in = layout(config_.in_channels, workspace.grid, config_.patch);
  nn::parallel_rows(act.num_tokens, [&](const nn::RowBlock& rows) {
    float* const patches = act.of_thread(rows.thread).a.data();
    nn::patchify(in, args.latents, rows.begin, rows.end, patches);
    patch_embedding_.forward_block(patches, rows.size(), act.x.data() + rows.begin * width);
  });
  for (size_t n = 0; n < blocks_.size(); ++n) {
    if (args.cancel != nullptr && *args.cancel) {
      return Status(StatusCode::kCancelled, fmt::format("layer {}: cancelled", n));
    }
    VSA_TRY(run_layer(n, args, projected, workspace, stats[n]));
    if (args.on_layer) args.on_layer();
  }

  // The head is modulated by temb itself, not by its projection.
  std::vector<float> shift(head_scale_shift_.begin(), head_scale_shift_.begin() + width);
  std::vector<float> scale(head_scale_shift_.begin() + width, head_scale_shift_.end());
  for (size_t i = 0; i < temb.size(); ++i) {
    shift[i] += temb[i];
    scale[i] += temb[i] + 1.0F;
  }
  const nn::PatchLayout out = layout(config_.out_channels, workspace.grid, config_.patch);
  nn::parallel_rows(act.num_tokens, [&](const nn::RowBlock& rows) {
    auto& scratch = act.of_thread(rows.thread);
    nn::layer_norm({.x = act.x.data() + rows.begin * width,
                    .rows = rows.size(),
                    .width = width,
                    .eps = config_.eps,
                    .scale = scale.data(),
                    .shift = shift.data(),
                    .y = scratch.a.data()});
    head_.forward_block(scratch.a.data(), rows.size(), scratch.b.data());
    nn::unpatchify(out, scratch.b.data(), rows.begin, rows.end, args.velocity);
  });
  return {};
}

}  // namespace vsa::dit
