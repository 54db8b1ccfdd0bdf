// From frames to latents, chunk by chunk, on any device. Host-only.
#pragma once

#include <cstdint>

#include "runtime/vae/runner.h"
#include "runtime/vae/split.h"
#include "runtime/vae/steps.h"
#include "vsa/status.h"

namespace vsa::vae {

struct EncodeArgs {
  const float* rgb = nullptr;  ///< [frames, height, width, 3] in [-1, 1]
  /// 1 + n * temporal_factor() frames; edges are multiples of spatial_factor().
  int64_t frames = 0, height = 0, width = 0;
  Split split;
  RunControl control;
  /// [z_dim, latent frames, latent rows, latent columns]: the means, less the mean, by the standard
  /// deviation of the configuration, as the transformer takes them.
  float* latents = nullptr;
};

/// @param model  of encoder_network()
/// @return InvalidArgument (a size, or a value that is not finite) | Cancelled | Internal (a
///         non-finite value, names the layer) | OutOfMemory | errors of the steps, unchanged.
///         latents is written in part after a failure.
Status encode(const EncodeArgs& args, Model& model);

}  // namespace vsa::vae
