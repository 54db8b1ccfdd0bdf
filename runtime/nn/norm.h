// LayerNorm with adaLN modulation, and RMSNorm; rows of f32. Host-only.
#pragma once

#include <cstdint>

namespace vsa::nn {

/// y = (x - mean) / sqrt(var + eps) * scale + shift, over each row; var is the biased one.
/// Affine LayerNorm: scale, shift = weight, bias. adaLN: scale = 1 + c. Neither: ones, zeros.
/// @param x      [rows, width]
/// @param scale  [width]
/// @param shift  [width]
/// @param y      [rows, width]; may be x
struct LayerNormArgs {
  const float* x = nullptr;
  int64_t rows = 0;
  int64_t width = 0;
  float eps = 1e-6F;
  const float* scale = nullptr;
  const float* shift = nullptr;
  float* y = nullptr;
};
void layer_norm(const LayerNormArgs& args);

/// y = x / sqrt(mean(x^2) + eps) * weight, over each row.
/// @param x, y    [rows, width]; may be the same
/// @param weight  [width]
struct RmsNormArgs {
  const float* x = nullptr;
  int64_t rows = 0;
  int64_t width = 0;
  float eps = 1e-6F;
  const float* weight = nullptr;
  float* y = nullptr;
};
void rms_norm(const RmsNormArgs& args);

}  // namespace vsa::nn
