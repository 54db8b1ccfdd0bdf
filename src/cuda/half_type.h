// What differs between bf16 and fp16. Device-only.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace vsa::cuda {

template <class T>
struct HalfType;

template <>
struct HalfType<__nv_bfloat16> {
  /// Two floats rounded to nearest even, the first in the low half.
  __device__ __forceinline__ static uint32_t pack(float x, float y) {
    const __nv_bfloat162 both = __floats2bfloat162_rn(x, y);
    return reinterpret_cast<const uint32_t&>(both);
  }
  __device__ __forceinline__ static float2 unpack(uint32_t both) {
    return __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(both));
  }
};

template <>
struct HalfType<__half> {
  __device__ __forceinline__ static uint32_t pack(float x, float y) {
    const __half2 both = __floats2half2_rn(x, y);
    return reinterpret_cast<const uint32_t&>(both);
  }
  __device__ __forceinline__ static float2 unpack(uint32_t both) {
    return __half22float2(reinterpret_cast<const __half2&>(both));
  }
};

}  // namespace vsa::cuda
