// What the VAE takes in memory on the CPU, from its configuration alone. Host-only.
#include "runtime/vae/cpu/memory.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <vector>

#include "runtime/nn/parallel.h"
#include "runtime/vae/cpu/causal_conv.h"
#include "vsa/backend.h"

namespace vsa::vae::cpu {
namespace {

/// Rows between the two convolutions of a residual block.
int64_t middle_rows(const LayerShape& shape) {
  return std::min(shape.in.end, shape.out.end + 1) - std::max(shape.in.begin, shape.out.begin - 1);
}

int64_t floats(int64_t frames, int64_t rows, int64_t width, int64_t channels) {
  return frames * rows * width * channels;
}

WorkspaceFloats layer_floats(const Layer& layer, const LayerShape& shape, int64_t frames,
                             bool first_chunk) {
  const int64_t behind = frames + frames_kept(1);
  const int64_t in_rows = shape.in.size();
  const int64_t in = floats(frames, in_rows, shape.width_in, layer.in);
  const int64_t out =
      floats(frames_out(layer, frames, first_chunk), shape.out.size(), shape.width_out, layer.out);
  const int64_t in_behind = floats(behind, in_rows, shape.width_in, layer.in);
  switch (layer.kind) {
    case LayerKind::kPointwise:
      return {.x = std::max(in, out)};
    case LayerKind::kConv:
    case LayerKind::kHead:
      return {.x = std::max(in, out), .padded = in_behind};
    case LayerKind::kResidual: {
      const int64_t rows = middle_rows(shape);
      return {.x = std::max(in, floats(frames, rows, shape.width_in, layer.out)),
              .padded = std::max(in_behind, floats(behind, rows, shape.width_in, layer.out))};
    }
    case LayerKind::kAttention:
      return {.x = in, .padded = in / frames};
    case LayerKind::kUpsample: {
      const int64_t rows =
          std::min(shape.height_out, shape.out.end + 1) - std::max<int64_t>(0, shape.out.begin - 1);
      const int64_t doubled = floats(1, rows, shape.width_out, layer.in);
      if (!layer.temporal || first_chunk) return {.x = std::max(in, out), .padded = doubled};
      return {.x = std::max(2 * in, out), .padded = std::max(in_behind, doubled)};
    }
    case LayerKind::kDownsample: {
      const int64_t halved = floats(1, shape.out.size(), shape.width_out, layer.out);
      if (!layer.temporal) return {.x = std::max(in, out)};
      return {.x = std::max(in, out), .padded = (frames + frames_kept(2)) * halved};
    }
  }
  return {};
}

int64_t layer_history(const Layer& layer, const LayerShape& shape) {
  const int64_t of_input = floats(frames_kept(1), shape.in.size(), shape.width_in, layer.in);
  switch (layer.kind) {
    case LayerKind::kPointwise:
    case LayerKind::kAttention:
      return 0;
    case LayerKind::kConv:
    case LayerKind::kHead:
      return of_input;
    case LayerKind::kResidual:
      return of_input + floats(frames_kept(1), middle_rows(shape), shape.width_in, layer.out);
    case LayerKind::kUpsample:
      return layer.temporal ? of_input : 0;
    case LayerKind::kDownsample:
      return layer.temporal ? floats(frames_kept(2), shape.out.size(), shape.width_out, layer.out)
                            : 0;
  }
  return 0;
}

/// Weights and biases, all f32.
int64_t num_parameters(const Layer& layer) {
  const auto conv = [](int64_t in, int64_t out, int64_t kernel) { return in * out * kernel + out; };
  const int64_t in = layer.in;
  const int64_t out = layer.out;
  switch (layer.kind) {
    case LayerKind::kPointwise:
      return conv(in, out, 1);
    case LayerKind::kConv:
      return conv(in, out, 27);
    case LayerKind::kHead:
      return in + conv(in, out, 27);
    case LayerKind::kResidual:
      return in + out + conv(in, out, 27) + conv(out, out, 27) + (in == out ? 0 : conv(in, out, 1));
    case LayerKind::kAttention:
      return in + conv(in, 3 * in, 1) + conv(in, in, 1);
    case LayerKind::kUpsample:
      return conv(in, out, 9) + (layer.temporal ? conv(in, 2 * in, 3) : 0);
    case LayerKind::kDownsample:
      return conv(in, out, 9) + (layer.temporal ? conv(in, in, 3) : 0);
  }
  return 0;
}

/// Keys and values of a frame, and for every thread a block of rows with its scores.
int64_t attention_floats(const Network& network, int64_t pixels, int threads) {
  for (const Layer& layer : network.layers) {
    if (layer.kind != LayerKind::kAttention) continue;
    return 2 * pixels * layer.in + threads * nn::kRowBlock * (2 * layer.in + pixels);
  }
  return 0;
}

/// Pages of libraries that are touched, and stacks of threads: 10 MB were measured.
constexpr int64_t kLibraryBytes = 10'000'000;

/// Code that oneDNN generates for one shape of a convolution, as the mean over a network: with
/// AVX-512 40 to 120 KiB were measured, without it 30 KiB. The code is never freed, which counts if
/// stripes are many and small.
int64_t code_bytes() {
  const Result<std::string_view> isa = cpu_isa();
  return (isa.ok() && *isa == "avx512" ? 80 : 30) * int64_t{1024};
}

/// Convolutions of different shape or place that the parts run.
/// @param frames  of each kind of chunk, the first one's (1) ahead
int64_t num_convolutions(const Network& network, const std::vector<Part>& parts,
                         const std::vector<int64_t>& frames) {
  int64_t total = 0;
  std::set<std::array<int64_t, 6>> seen;
  for (const Part& part : parts) {
    for (size_t kind = 0; kind < frames.size(); ++kind) {
      for (int64_t i = 0; i < part.num_layers(); ++i) {
        const LayerShape& shape = part.shape(i);
        const bool at_top = shape.out.begin == 0;
        const bool at_bottom = shape.out.end == shape.height_out;
        const int64_t layer = part.first_layer + i;
        if (!seen.insert({layer, frames[kind], kind == 0, shape.out.size(), at_top, at_bottom})
                 .second) {
          continue;
        }
        const Layer& what = network.layer(layer);
        const bool residual = what.kind == LayerKind::kResidual;
        const bool none = what.kind == LayerKind::kPointwise || what.kind == LayerKind::kAttention;
        total += none ? 0 : residual || (what.temporal && kind > 0) ? 2 : 1;
      }
    }
  }
  return total;
}

/// Frames of the kinds of chunks: the first, those behind it, the last if it is shorter.
std::vector<int64_t> kinds_of_chunks(const LatentSize& size, Split split) {
  std::vector<int64_t> kinds{1};
  if (size.frames > 1) kinds.push_back(std::min(split.chunk, size.frames - 1));
  if (const int64_t rest = (size.frames - 1) % split.chunk; rest > 0 && rest != kinds.back()) {
    kinds.push_back(rest);
  }
  return kinds;
}

/// The weights, the largest of them once more while it is put in order, and the buffers that all
/// layers share.
int64_t network_floats(const Network& network, const std::vector<Part>& parts, int64_t num_frames) {
  int64_t total = 0;
  int64_t widest = 0;
  for (const Layer& layer : network.layers) {
    total += num_parameters(layer);
    widest = std::max(widest, layer.out);
  }
  total += 27 * widest * widest;
  const WorkspaceFloats space = workspace_floats(network, parts, num_frames);
  return total + 2 * space.x + space.padded;
}

/// Latent frames of a chunk other than the first; 0 if there is no other.
int64_t behind_first(const LatentSize& size, Split split) {
  return std::min(split.chunk, size.frames - 1);
}

/// Floats of a latent frame where the layers on whole frames end and the stripes begin.
int64_t handed_over(const VaeConfig& config, int64_t pixels) {
  return pixels * config.dim(config.num_levels() - 1);
}

int64_t to_bytes(int64_t floats) { return floats * static_cast<int64_t>(sizeof(float)); }

/// The most floats of kept and decoded frames when decoding stripe by stripe.
int64_t by_stripes(const Network& network, const std::vector<Part>& parts, int64_t rgb_row,
                   int64_t attention) {
  int64_t most = history_floats(network, parts.front()) + attention;
  for (size_t i = 1; i < parts.size(); ++i) {
    // Only the rows of the frames that were written take memory.
    const int64_t rows = parts[i].shapes.back().out.end;
    most = std::max(most, history_floats(network, parts[i]) + rows * rgb_row);
  }
  return most;
}

}  // namespace

WorkspaceFloats workspace_floats(const Network& network, const std::vector<Part>& parts,
                                 int64_t num_frames) {
  WorkspaceFloats most;
  for (const Part& part : parts) {
    for (const bool first : {true, false}) {
      if (!first && num_frames == 0) continue;
      int64_t frames = first ? 1 : num_frames;
      for (int64_t i = 0; i < part.num_layers(); ++i) {
        const Layer& layer = network.layer(part.first_layer + i);
        const WorkspaceFloats needed = layer_floats(layer, part.shape(i), frames, first);
        most = {.x = std::max(most.x, needed.x), .padded = std::max(most.padded, needed.padded)};
        frames = frames_out(layer, frames, first);
      }
    }
  }
  return most;
}

int64_t history_floats(const Network& network, const Part& part) {
  int64_t total = 0;
  for (int64_t i = 0; i < part.num_layers(); ++i) {
    total += layer_history(network.layer(part.first_layer + i), part.shape(i));
  }
  return total;
}

int64_t decode_memory_bytes(const VaeConfig& config, const LatentSize& size, Split split,
                            int threads) {
  const Network network = decoder_network(config);
  const std::vector<Part> parts = cut_into_parts(network, size.height, size.width, split.stripes);
  const int64_t pixels = size.height * size.width;
  const int64_t behind = behind_first(size, split);
  const int64_t latents = std::max<int64_t>(1, behind);
  const int64_t edge = config.spatial_factor();
  const int64_t frame = pixels * edge * edge * 3;
  const int64_t attention = attention_floats(network, pixels, threads);
  int64_t total = network_floats(network, parts, behind) + latents * pixels * config.z_dim;
  if (split.stripes > 1 && split.order == Order::kStripes) {
    const int64_t all_frames = 1 + (size.frames - 1) * config.temporal_factor();
    total += size.frames * handed_over(config, pixels);
    total += by_stripes(network, parts, all_frames * frame / (size.height * edge), attention);
  } else {
    for (const Part& part : parts) total += history_floats(network, part);
    if (split.stripes > 1) total += latents * handed_over(config, pixels);
    total += attention + std::max<int64_t>(1, behind * config.temporal_factor()) * frame;
  }
  return to_bytes(total) + kLibraryBytes +
         code_bytes() * num_convolutions(network, parts, kinds_of_chunks(size, split));
}

int64_t encode_memory_bytes(const VaeConfig& config, const LatentSize& size, Split split,
                            int threads) {
  const Network network = encoder_network(config);
  const int64_t edge = config.spatial_factor();
  const std::vector<Part> parts =
      cut_into_parts(network, size.height * edge, size.width * edge, split.stripes);
  const int64_t pixels = size.height * size.width;
  const int64_t behind = behind_first(size, split);
  // The layers on whole frames come last, when the stripes keep nothing any more.
  int64_t most = history_floats(network, parts.back()) +
                 attention_floats(network, pixels, threads) +
                 std::max<int64_t>(1, behind) * pixels * 2 * config.z_dim;
  for (const Part& part : parts) most = std::max(most, history_floats(network, part));
  if (split.stripes > 1) most += size.frames * handed_over(config, pixels);
  return to_bytes(network_floats(network, parts, behind * config.temporal_factor()) + most) +
         kLibraryBytes +
         code_bytes() * num_convolutions(network, parts, kinds_of_chunks(size, split));
}

Split choose_split(const VaeConfig& config, const LatentSize& size, int64_t bytes, int threads) {
  Split least;
  int64_t least_bytes = decode_memory_bytes(config, size, least, threads);
  for (const Order order : {Order::kFrames, Order::kStripes}) {
    for (int64_t stripes = 1; stripes <= size.height; ++stripes) {
      const Split split{.chunk = 1, .stripes = stripes, .order = order};
      const int64_t needed = decode_memory_bytes(config, size, split, threads);
      if (needed <= bytes) return split;
      if (needed < least_bytes) {
        least = split;
        least_bytes = needed;
      }
    }
  }
  return least;
}

}  // namespace vsa::vae::cpu
