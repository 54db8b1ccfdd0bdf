// Elementwise operations on f32 arrays. Host-only.
#pragma once

#include <cstdint>
#include <span>

namespace vsa::nn {

/// x += gate * y, row by row.
/// @param x, y  [rows, width]
/// @param gate  [width]
struct GatedResidualArgs {
  float* x = nullptr;
  const float* y = nullptr;
  int64_t rows = 0;
  int64_t width = 0;
  const float* gate = nullptr;
};
void gated_residual(const GatedResidualArgs& args);

/// x += y; same length.
void add(std::span<float> x, std::span<const float> y);
/// x *= y; same length.
void multiply(std::span<float> x, std::span<const float> y);
/// x = x / (1 + exp(-x)). For short vectors: one libm call an element.
void silu(std::span<float> x);
/// False if any element is NaN or infinite.
bool all_finite(std::span<const float> x);

}  // namespace vsa::nn
