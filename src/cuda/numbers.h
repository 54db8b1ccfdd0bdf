// Numbers that several kernels use. Host and device.
#pragma once

namespace vsa::cuda {

inline constexpr unsigned kAllLanes = ~0U;  // of a warp, as shuffles and ballots want them
inline constexpr float kMinusInfinity = -__builtin_huge_valf();
inline constexpr float kLog2E = 1.44269504088896340736F;

}  // namespace vsa::cuda
