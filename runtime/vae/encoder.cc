// From frames to latents, chunk by chunk. Host-only.
#include "runtime/vae/encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <new>
#include <vector>

#include "runtime/nn/buffer.h"

namespace vsa::vae {
namespace {

Status check_args(const EncodeArgs& args, const VaeConfig& config) {
  const int64_t in_time = config.temporal_factor();
  const int64_t in_space = config.spatial_factor();
  if (args.frames < 1 || (args.frames - 1) % in_time != 0) {
    return invalid_argument(fmt::format(
        "[encode] frames: expected 1 more than a multiple of {}, got {}", in_time, args.frames));
  }
  for (const auto& [name, value] :
       {std::pair{"height", args.height}, std::pair{"width", args.width}}) {
    if (value >= in_space && value % in_space == 0) continue;
    return invalid_argument(
        fmt::format("[encode] {}: expected a multiple of {}, got {}", name, in_space, value));
  }
  if (args.split.chunk < 1) {
    return invalid_argument(
        fmt::format("[encode] chunk: expected at least 1, got {}", args.split.chunk));
  }
  if (const int64_t rows = args.height / in_space;
      args.split.stripes < 1 || args.split.stripes > rows) {
    return invalid_argument(fmt::format(
        "[encode] stripes: expected 1 to {} (rows of latents), got {}", rows, args.split.stripes));
  }
  const int64_t of_frame = args.height * args.width * 3;
  for (int64_t i = 0; i < args.frames * of_frame; ++i) {
    if (std::isfinite(args.rgb[i])) continue;
    return invalid_argument(fmt::format("[encode] rgb: expected finite values, got {} in frame {}",
                                        args.rgb[i], i / of_frame));
  }
  return {};
}

/// Puts the means of a chunk in place, normalised.
/// @param moments  [latents, pixels, 2 * z_dim]: means, then logarithms of variances
/// @param all      latent frames of the video
void normalise(const VaeConfig& config, const float* moments, const Chunk& chunk, int64_t all,
               int64_t pixels, float* latents) {
  for (int64_t c = 0; c < config.z_dim; ++c) {
    const float mean = config.latents_mean[static_cast<size_t>(c)];
    const float std = config.latents_std[static_cast<size_t>(c)];
    float* const channel = latents + (c * all + chunk.first_latent) * pixels;
    for (int64_t i = 0; i < chunk.num_latents * pixels; ++i) {
      channel[i] = (moments[i * 2 * config.z_dim + c] - mean) / std;
    }
  }
}

Status encode_chunks(const EncodeArgs& args, Model& model) {
  const VaeConfig& config = model.config();
  const int64_t all = 1 + (args.frames - 1) / config.temporal_factor();
  const std::vector<Chunk> chunks = all_chunks(all, args.split, config.temporal_factor());
  Result<Runner> runner = Runner::make(
      "encode", model,
      {.chunks = chunks, .height = args.height, .width = args.width, .stripes = args.split.stripes},
      args.control);
  VSA_TRY(runner.status());
  const int64_t edge = config.spatial_factor();
  const int64_t pixels = args.height / edge * (args.width / edge);
  const auto frames = [&](const Chunk& chunk) {
    return args.rgb + chunk.first_frame * args.height * args.width * 3;
  };
  const int64_t last = runner->num_parts() - 1;
  // The output of the stripes for all frames; the layers that need whole frames come after them.
  const int64_t whole_floats = pixels * config.dim(config.num_levels() - 1);
  nn::Buffer whole(last == 0 ? 0 : all * whole_floats);
  for (int64_t part = 0; part < last; ++part) {
    for (const Chunk& chunk : chunks) {
      VSA_TRY(runner->run(part, frames(chunk), chunk.num_frames,
                          whole.data() + chunk.first_latent * whole_floats));
    }
    runner->finish(part);
  }
  nn::Buffer moments(std::ranges::max(chunks, {}, &Chunk::num_latents).num_latents * pixels * 2 *
                     config.z_dim);
  for (const Chunk& chunk : chunks) {
    if (last == 0) {
      VSA_TRY(runner->run(0, frames(chunk), chunk.num_frames, moments.data()));
    } else {
      VSA_TRY(runner->run(last, whole.data() + chunk.first_latent * whole_floats, chunk.num_latents,
                          moments.data()));
    }
    normalise(config, moments.data(), chunk, all, pixels, args.latents);
  }
  return {};
}

}  // namespace

Status encode(const EncodeArgs& args, Model& model) {
  VSA_TRY(check_args(args, model.config()));
  try {
    return encode_chunks(args, model);
  } catch (const std::bad_alloc&) {
    return out_of_memory("[encode] not enough memory");
  }
}

}  // namespace vsa::vae
