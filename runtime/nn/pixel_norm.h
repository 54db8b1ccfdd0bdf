// The norm of Wan's VAE over the channels of each pixel, with or without SiLU after it. Host-only.
#pragma once

#include <cstdint>

namespace vsa::nn {

/// y = act(x / max(|x|, 1e-12) * sqrt(channels) * gamma), |x| over the channels of a pixel; on the
/// calling thread.
/// @param x, y   [pixels, channels], contiguous; may be the same
/// @param gamma  [channels]
struct PixelNormArgs {
  const float* x = nullptr;
  int64_t pixels = 0;
  int64_t channels = 0;
  const float* gamma = nullptr;
  float* y = nullptr;
};
void pixel_norm(const PixelNormArgs& args);

/// The same with act = silu, x / (1 + exp(-x)).
void pixel_norm_silu(const PixelNormArgs& args);

}  // namespace vsa::nn
