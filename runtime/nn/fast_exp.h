// exp for float in plain arithmetic, so that loops over it vectorise. Host-only.
#pragma once

#include <bit>
#include <cstdint>

#include "runtime/nn/multiversion.h"

namespace vsa::nn {

/// e^x for x <= 0 (softmax after the row maximum is taken off), within 2 ulp; 0 below -87.
/// NaN stays NaN.
VSA_ALWAYS_INLINE float exp_nonpositive(float x) {
  // x = n ln2 + r, |r| <= ln2 / 2. Adding 1.5 * 2^23 rounds to the nearest integer and leaves n in
  // the low bits. ln2 in two parts (Cody and Waite), so that r is exact to the last bit.
  const float clamped = x < -87.0F ? -87.0F : x;
  const float shifted = clamped * 1.44269504F + 12582912.0F;
  const float n = shifted - 12582912.0F;
  const float r = (clamped - n * 0.693359375F) + n * 2.12194440e-4F;
  // Taylor to r^7: the remainder at |r| = 0.347 is 5e-9 relative, below half an ulp (6e-8).
  float p = 1.0F / 5040.0F;
  p = p * r + 1.0F / 720.0F;
  p = p * r + 1.0F / 120.0F;
  p = p * r + 1.0F / 24.0F;
  p = p * r + 1.0F / 6.0F;
  p = p * r + 0.5F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
  const float two_n = std::bit_cast<float>((std::bit_cast<int32_t>(shifted) << 23) + 0x3F800000);
  return x < -87.0F ? 0.0F : p * two_n;
}

}  // namespace vsa::nn
