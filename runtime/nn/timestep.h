// The sinusoidal embedding of a diffusion timestep. Host-only.
#pragma once

#include <cstdint>
#include <span>

namespace vsa::nn {

/// [cos(t w_0) ... cos(t w_{h-1}) | sin(t w_0) ... sin(t w_{h-1})], h = size / 2,
/// w_j = 10000^(-j / h): cosines first. Frequencies and phases are rounded to f32, as diffusers
/// does; at t = 1000 that moves a phase by up to 6e-5 against f64.
/// @param t    0 to 1000, not truncated
/// @param out  even length
void timestep_embedding(float t, std::span<float> out);

}  // namespace vsa::nn
