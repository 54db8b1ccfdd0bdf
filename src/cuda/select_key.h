// The order of scores as an order of integers. Host and device, so that tests check it on the host.
#pragma once

#include <cstdint>

#include "src/cuda/block.h"

namespace vsa::cuda {

inline constexpr uint32_t kForcedKey = ~0U;  // above every score

/// Larger for what ranks higher: -0 equals +0, NaN (any) ranks below -inf.
/// @param bits  of the float
VSA_HOST_DEVICE uint32_t select_key(uint32_t bits) {
  const uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return 0;
  if (magnitude == 0) return 0x80000000U;
  return bits == magnitude ? bits | 0x80000000U : ~bits;
}

}  // namespace vsa::cuda
