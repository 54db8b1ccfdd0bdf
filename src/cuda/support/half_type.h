// Conversions between fp32 and the 16-bit types bf16 and fp16. Device-only.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace vsa::cuda {

template <class T>
struct HalfType;

template <>
struct HalfType<__nv_bfloat16> {
  /// Rounds two floats to nearest even; the first one is in the low 16 bits.
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

/// Converts 16 bytes to 8 floats.
template <class T>
__device__ __forceinline__ void unpack8(const uint4& raw, float (&to)[8]) {
  const uint32_t pairs[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const float2 both = HalfType<T>::unpack(pairs[j]);
    to[2 * j] = both.x;
    to[2 * j + 1] = both.y;
  }
}
template <class T>
__device__ __forceinline__ uint4 pack8(const float (&x)[8]) {
  return {HalfType<T>::pack(x[0], x[1]), HalfType<T>::pack(x[2], x[3]),
          HalfType<T>::pack(x[4], x[5]), HalfType<T>::pack(x[6], x[7])};
}

}  // namespace vsa::cuda
