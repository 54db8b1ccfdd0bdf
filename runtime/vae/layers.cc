// The layers of the VAE's decoder and encoder in the order they run. Host-only.
#include "runtime/vae/layers.h"

#include <fmt/format.h>

namespace vsa::vae {
namespace {

void add_residual(Network& network, std::string name, int64_t in, int64_t out) {
  network.layers.push_back(
      {.kind = LayerKind::kResidual, .name = std::move(name), .in = in, .out = out});
}

void add_middle(Network& network, const std::string& side, int64_t dim) {
  add_residual(network, side + ".mid_block.resnets.0", dim, dim);
  network.layers.push_back({.kind = LayerKind::kAttention,
                            .name = side + ".mid_block.attentions.0",
                            .in = dim,
                            .out = dim});
  add_residual(network, side + ".mid_block.resnets.1", dim, dim);
}

}  // namespace

Network decoder_network(const VaeConfig& config) {
  Network network;
  const auto add = [&](const Layer& layer) { network.layers.push_back(layer); };
  const int64_t levels = config.num_levels();
  const int64_t deepest = config.dim(levels - 1);
  add({LayerKind::kPointwise, "post_quant_conv", config.z_dim, config.z_dim});
  add({LayerKind::kConv, "decoder.conv_in", config.z_dim, deepest});
  add_middle(network, "decoder", deepest);
  network.whole_end = network.num_layers();
  int64_t in = deepest;
  for (int64_t i = 0; i < levels; ++i) {
    const int64_t out = config.dim(levels - 1 - i);
    const std::string block = fmt::format("decoder.up_blocks.{}.", i);
    for (int64_t j = 0; j <= config.num_res_blocks; ++j) {
      add_residual(network, fmt::format("{}resnets.{}", block, j), in, out);
      in = out;
    }
    if (i + 1 == levels) break;
    const bool temporal = config.temporal_downsample[static_cast<size_t>(levels - 2 - i)];
    add({LayerKind::kUpsample, block + "upsamplers.0", out, out / 2, temporal});
    in = out / 2;
  }
  add({LayerKind::kHead, "decoder", in, 3});
  return network;
}

Network encoder_network(const VaeConfig& config) {
  Network network;
  const auto add = [&](const Layer& layer) { network.layers.push_back(layer); };
  const int64_t levels = config.num_levels();
  int64_t in = config.base_dim;
  add({LayerKind::kConv, "encoder.conv_in", 3, in});
  int64_t index = 0;  // blocks of all levels are one list
  const auto next_name = [&] { return fmt::format("encoder.down_blocks.{}", index++); };
  for (int64_t i = 0; i < levels; ++i) {
    const int64_t out = config.dim(i);
    for (int64_t j = 0; j < config.num_res_blocks; ++j) {
      add_residual(network, next_name(), in, out);
      in = out;
    }
    if (i + 1 == levels) break;
    const bool temporal = config.temporal_downsample[static_cast<size_t>(i)];
    add({LayerKind::kDownsample, next_name(), out, out, temporal});
  }
  network.whole_begin = network.num_layers();
  add_middle(network, "encoder", in);
  add({LayerKind::kHead, "encoder", in, 2 * config.z_dim});
  add({LayerKind::kPointwise, "quant_conv", 2 * config.z_dim, 2 * config.z_dim});
  network.whole_end = network.num_layers();
  return network;
}

int64_t frames_out(const Layer& layer, int64_t frames, bool first_chunk) {
  if (!layer.temporal || first_chunk) return frames;
  return layer.kind == LayerKind::kUpsample ? 2 * frames : frames / 2;
}

}  // namespace vsa::vae
