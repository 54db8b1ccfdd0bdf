// What the VAE computes, counted rather than measured. Host-only.
#pragma once

#include <cstdint>

#include "runtime/vae/config.h"

namespace vsa::vae {

/// FLOPs of the decoder's products and convolutions for latents of that size, without stripes. All
/// other operations are few beside them.
/// @param frames, height, width  of the latents
double decode_flops(const VaeConfig& config, int64_t frames, int64_t height, int64_t width);

}  // namespace vsa::vae
