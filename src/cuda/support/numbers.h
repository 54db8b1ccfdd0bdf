// Numbers that several kernels use. Host and device.
#pragma once

#include <cstdint>

namespace vsa::cuda {

inline constexpr unsigned kAllLanes = ~0U;  // the mask of shuffles and ballots
inline constexpr float kMinusInfinity = -__builtin_huge_valf();
inline constexpr float kLog2E = 1.44269504088896340736F;

/// The number of 32-bit words that hold so many bits.
constexpr int64_t words_for(int64_t bits) { return (bits + 31) / 32; }

}  // namespace vsa::cuda
