// The arithmetic of residual_norm on one token, as f32. Host-only.
#pragma once

#include <cstdint>

#include "vsa/residual_norm.h"

namespace vsa::cpu {

/// x += gate * y; a null gate is all ones. n is a multiple of 8.
void add_gated(float* x, const float* y, const float* gate, int64_t n);

struct NormedToken {
  const float* x = nullptr;  ///< [n], n a multiple of 8
  int64_t n = 0;
  const float* scale = nullptr;  ///< [n]; null: all ones
  const float* shift = nullptr;  ///< [n]; null: all zeros
  float eps = 0.0F;
  NormKind norm = NormKind::kLayer;
  float* out = nullptr;  ///< [n]
};
/// out = (x - mean(x)) / sqrt(var(x) + eps) * scale + shift, with a mean of 0 for kRms. The
/// variance is the mean of the centred squares: mean(x^2) - mean(x)^2 would cancel where the mean
/// is large.
void norm_token(const NormedToken& token);

}  // namespace vsa::cpu
