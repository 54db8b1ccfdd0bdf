// Maps scores to integers that have the same order. Host and device, so that tests check it on the
// host.
#pragma once

#include <cstdint>

#include "src/cuda/plan/block.h"

namespace vsa::cuda {

inline constexpr uint32_t kForcedKey = ~0U;  // above every score

/// The key of a score: larger keys rank higher. -0 equals +0, and any NaN ranks below -inf.
/// @param bits  the bits of the float
VSA_HOST_DEVICE uint32_t select_key(uint32_t bits) {
  // Without branches, so that the keys of a row are computed in parallel.
  const uint32_t magnitude = bits & 0x7FFFFFFFU;
  const uint32_t is_negative = magnitude != 0 ? bits >> 31 : 0;
  const uint32_t key = (magnitude | 0x80000000U) ^ (0U - is_negative);
  return magnitude > 0x7F800000U ? 0 : key;
}

}  // namespace vsa::cuda
