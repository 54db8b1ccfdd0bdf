// From latents to frames, chunk by chunk, on any device. Host-only.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "runtime/vae/runner.h"
#include "runtime/vae/split.h"
#include "runtime/vae/steps.h"
#include "vsa/status.h"

namespace vsa::vae {

/// Decoded frames in the order of the video.
struct FrameChunk {
  int64_t first = 0;  ///< index of the first of them in the video
  int64_t num_frames = 0;
  int64_t height = 0, width = 0;
  std::span<const float>
      rgb;  ///< [num_frames, height, width, 3] in [-1, 1]; until the call returns
};

struct DecodeArgs {
  /// [z_dim, frames, height, width] as the transformer makes them: less the mean, by the standard
  /// deviation of the configuration.
  const float* latents = nullptr;
  int64_t frames = 0, height = 0, width = 0;
  Split split;
  /// For every chunk in order, which is one frame first and then split.chunk * temporal_factor() at
  /// most. What it returns as a failure ends the decoding.
  std::function<Status(const FrameChunk&)> on_frames;
  RunControl control;
};

/// Frames of a video of that many latent frames: 1 + (latent_frames - 1) * temporal_factor().
int64_t num_decoded_frames(const VaeConfig& config, int64_t latent_frames);

/// @param model  of decoder_network()
/// @return InvalidArgument (a size, or a latent that is not finite) | Cancelled | Internal (a
///         non-finite value, names the layer) | OutOfMemory | errors of the steps and of on_frames,
///         unchanged
Status decode(const DecodeArgs& args, Model& model);

}  // namespace vsa::vae
