// Numbers that several kernels use. Host and device.
#pragma once

#include <cstdint>

namespace vsa::cuda {

inline constexpr unsigned kAllLanes = ~0U;  // of a warp, as shuffles and ballots want them
inline constexpr float kMinusInfinity = -__builtin_huge_valf();
inline constexpr float kLog2E = 1.44269504088896340736F;

/// Words of 32 bits that hold so many.
constexpr int64_t words_for(int64_t bits) { return (bits + 31) / 32; }

}  // namespace vsa::cuda
