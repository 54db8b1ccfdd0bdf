// How much of a device's memory the decoder takes. Host-only.
#include "runtime/vae/device/memory_needed.h"

#include <algorithm>

#include "runtime/vae/device/layers.h"

namespace vsa::vae::device {
namespace {

constexpr int64_t kWorkspaceBytes = int64_t{32} << 20;  // the largest of a call: linear and conv3d
constexpr int64_t kMostLatents = 4;                     // of a chunk: more only take more memory
/// cuDNN's fast engines count elements with 32 bits, so larger tensors get a slow one.
constexpr int64_t kMostElements = INT32_MAX;

/// A chunk of a part, counted.
int64_t count_chunk(Work& work, const Network& network, const Part& part, int64_t num_frames,
                    bool first_chunk) {
  static const DeviceLayer kNoWeights;
  History history;
  // Nothing is computed, so nothing fails.
  static_cast<void>(begin_part(work, network, part, nullptr, num_frames));
  for (int64_t i = 0; i < part.num_layers(); ++i) {
    LayerHistory kept;
    static_cast<void>(run_layer(work, {.layer = network.layer(part.first_layer + i),
                                       .weights = kNoWeights,
                                       .shape = part.shape(i),
                                       .kept = kept,
                                       .history = history,
                                       .first_chunk = first_chunk}));
  }
  static_cast<void>(end_part(work, network, part));
  return history.taken_bytes();
}

int64_t conv_bytes(const ConvShape& shape, DType token) {
  return shape.out * (shape.frames * shape.edge * shape.edge * shape.in * size_bytes(token) +
                      size_bytes(DType::kF32));
}

int64_t linear_bytes(int64_t in, int64_t out, DType token) {
  return out * (in + 1) * size_bytes(token);
}

int64_t weight_bytes(const Layer& layer, DType token) {
  const int64_t norm = size_bytes(DType::kF32);
  switch (layer.kind) {
    case LayerKind::kPointwise:
      return linear_bytes(layer.in, layer.out, token);
    case LayerKind::kConv:
      return conv_bytes(conv_shape(layer), token);
    case LayerKind::kHead:
      return layer.in * norm + conv_bytes(conv_shape(layer), token);
    case LayerKind::kResidual:
      return (layer.in + layer.out) * norm + conv_bytes(conv_shape(layer), token) +
             conv_bytes(conv2_shape(layer), token) +
             (layer.in == layer.out ? 0 : linear_bytes(layer.in, layer.out, token));
    case LayerKind::kAttention:
      return layer.in * norm + 4 * linear_bytes(layer.in, layer.in, token);
    case LayerKind::kUpsample:
      return conv_bytes(conv_shape(layer), token) +
             (layer.temporal ? conv_bytes(conv2_shape(layer), token) : 0);
    case LayerKind::kDownsample:
      break;
  }
  return 0;
}

}  // namespace

Status begin_part(Work& work, const Network& network, const Part& part, const float* frames,
                  int64_t num_frames) {
  const LayerShape& shape = part.shapes.front();
  const int64_t channels = network.layer(part.first_layer).in;
  const int64_t row = shape.width_in * channels;
  const float* const first = frames == nullptr ? nullptr : frames + shape.in.begin * row;
  return work.bring(first, num_frames,
                    {.rows = shape.in, .width = shape.width_in, .channels = channels},
                    shape.height_in * row);
}

Status end_part(Work& work, const Network& network, const Part& part) {
  return work.pass({.rows = part.shapes.back().out,
                    .channels_f32 = network.layer(part.first_layer + part.num_layers() - 1).out});
}

WorkBytes work_bytes(const Network& network, const std::vector<Part>& parts, int64_t num_frames,
                     DType token) {
  Work work(token);
  for (const Part& part : parts) {
    count_chunk(work, network, part, 1, true);
    if (num_frames > 0) count_chunk(work, network, part, num_frames, false);
  }
  return work.needed();
}

int64_t history_bytes(const Network& network, const Part& part, DType token) {
  Work work(token);
  return count_chunk(work, network, part, 1, false);
}

int64_t memory_needed_bytes(const VaeConfig& config, const LatentSize& size, Split split,
                            DType token) {
  const Network network = decoder_network(config);
  const std::vector<Part> parts = cut_into_parts(network, size.height, size.width, split.stripes);
  int64_t total = kWorkspaceBytes;
  for (const Layer& layer : network.layers) total += weight_bytes(layer, token);
  const WorkBytes work = work_bytes(network, parts, std::min(split.chunk, size.frames - 1), token);
  total += 2 * work.x + work.p + work.scratch;
  int64_t all = 0;
  int64_t most = 0;
  for (const Part& part : parts) {
    const int64_t kept = history_bytes(network, part, token);
    all += kept;
    most = std::max(most, kept);
  }
  return total + (split.order == Order::kStripes ? most : all);
}

Split choose_split(const VaeConfig& config, const LatentSize& size, int64_t bytes, DType token) {
  Split least;
  int64_t least_bytes = INT64_MAX;
  const auto fits = [&](const Split& split) {
    const int64_t needed = memory_needed_bytes(config, size, split, token);
    if (needed < least_bytes) {
      least = split;
      least_bytes = needed;
    }
    return needed <= bytes;
  };
  const auto countable = [&](const Split& split) {
    const Network network = decoder_network(config);
    const WorkBytes work =
        work_bytes(network, cut_into_parts(network, size.height, size.width, split.stripes),
                   std::min(split.chunk, size.frames - 1), token);
    return std::max(work.x, work.p) / size_bytes(token) <= kMostElements;
  };
  for (int64_t chunk = kMostLatents; chunk > 1; --chunk) {
    const Split split{.chunk = chunk};
    if (chunk < size.frames && countable(split) && fits(split)) return split;
  }
  for (const Order order : {Order::kFrames, Order::kStripes}) {
    for (int64_t stripes = 1; stripes <= size.height; ++stripes) {
      const Split split{.chunk = 1, .stripes = stripes, .order = order};
      if (countable(split) && fits(split)) return split;
    }
  }
  return least;
}

}  // namespace vsa::vae::device
