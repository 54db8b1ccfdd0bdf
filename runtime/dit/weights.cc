// The weights of a Wan transformer by name. Host-only.
#include "runtime/dit/weights.h"

#include <fmt/format.h>

#include "runtime/dit/tensor_names.h"

namespace vsa::dit {
namespace {

/// Gates in every layer, or in none: some would be a damaged file.
Result<bool> find_gates(const nn::WeightFinder& finder, int64_t num_layers) {
  int64_t gates = 0;
  for (int64_t n = 0; n < num_layers; ++n) {
    if (finder.has(fmt::format("blocks.{}.to_gate_compress.weight", n))) ++gates;
  }
  if (gates != 0 && gates != num_layers) {
    return io_error(
        fmt::format("[load] transformer: to_gate_compress: expected gates in all {} layers or in "
                    "none, got them in {}",
                    num_layers, gates));
  }
  return gates == num_layers;
}

AttentionWeights find_attention(nn::WeightFinder& finder, const WanConfig& config,
                                const std::string& prefix) {
  const int64_t width = config.width();
  const auto square = [&](const char* name) {
    return finder.linear(prefix + name, {.dims = {width, width}});
  };
  AttentionWeights weights{.q = square("to_q"),
                           .k = square("to_k"),
                           .v = square("to_v"),
                           .out = square("to_out.0"),
                           .norm_q = {},
                           .norm_k = {}};
  if (config.qk_norm) {
    weights.norm_q = finder.find(prefix + "norm_q.weight", {width});
    weights.norm_k = finder.find(prefix + "norm_k.weight", {width});
  }
  return weights;
}

BlockWeights find_block(nn::WeightFinder& finder, const WanConfig& config, int64_t index,
                        bool gated) {
  const int64_t width = config.width();
  const std::string prefix = fmt::format("blocks.{}.", index);
  BlockWeights weights;
  weights.scale_shift = finder.find(prefix + "scale_shift_table", {1, 6, width});
  weights.self = find_attention(finder, config, prefix + "attn1.");
  if (gated) weights.gate = finder.linear(prefix + "to_gate_compress", {.dims = {width, width}});
  if (config.cross_attn_norm) {
    weights.text_norm_weight = finder.find(prefix + "norm2.weight", {width});
    weights.text_norm_bias = finder.find(prefix + "norm2.bias", {width});
  }
  weights.text = find_attention(finder, config, prefix + "attn2.");
  weights.up = finder.linear(prefix + "ffn.net.0.proj", {.dims = {width, config.ffn_dim}});
  weights.down = finder.linear(prefix + "ffn.net.2", {.dims = {config.ffn_dim, width}});
  return weights;
}

}  // namespace

Result<WanWeights> find_weights(const WanConfig& config, const io::Checkpoint& checkpoint,
                                LoadReport& report, std::span<const LoraSpec> loras) {
  std::vector<std::string> names;
  for (const auto& [name, view] : checkpoint.tensors()) names.push_back(name);
  const Result<Naming> naming = detect_naming(names);
  if (!naming.ok()) return naming.status();
  nn::WeightFinder finder(checkpoint, "transformer",
                          [&](std::string_view name) { return diffusers_name(name, *naming); });
  // Before anything is sized by num_layers, which a wrong config may put at 2^31.
  if (const int64_t layers = finder.length_of("blocks."); layers != config.num_layers) {
    return io_error(fmt::format("[load] transformer: expected {} layers (num_layers), got {}",
                                config.num_layers, layers));
  }
  const Result<bool> gated = find_gates(finder, config.num_layers);
  if (!gated.ok()) return gated.status();

  Result<WeightChanges> changes = open_loras(loras, finder.shapes());
  VSA_TRY(changes.status());
  const int64_t changed = std::ssize(*changes);
  finder.set_changes(std::move(*changes));

  const int64_t width = config.width();
  const auto& patch = config.patch;
  const auto linear = [&](const char* name, nn::LinearDims dims) {
    return finder.linear(name, {.dims = dims});
  };
  WanWeights weights;
  weights.config = config;
  weights.has_gates = *gated;
  weights.patch_embedding = finder.linear(
      "patch_embedding", {.dims = {config.in_channels * patch.volume(), width},
                          .weight_shape = {width, config.in_channels, patch.f, patch.h, patch.w}});
  weights.text_in = linear("condition_embedder.text_embedder.linear_1", {config.text_dim, width});
  weights.text_out = linear("condition_embedder.text_embedder.linear_2", {width, width});
  weights.time_in = linear("condition_embedder.time_embedder.linear_1", {config.freq_dim, width});
  weights.time_out = linear("condition_embedder.time_embedder.linear_2", {width, width});
  weights.time_proj = linear("condition_embedder.time_proj", {width, 6 * width});
  for (int64_t n = 0; n < config.num_layers; ++n) {
    weights.blocks.push_back(find_block(finder, config, n, *gated));
  }
  weights.head_scale_shift = finder.find("scale_shift_table", {1, 2, width});
  weights.head = linear("proj_out", {width, config.out_channels * patch.volume()});

  Result<nn::LoadSummary> summary = finder.finish();
  if (!summary.ok()) return summary.status();
  report = {.summary = *summary,
            .naming = std::string(name(*naming)),
            .has_gates = *gated,
            .changed = changed};
  return weights;
}

}  // namespace vsa::dit
