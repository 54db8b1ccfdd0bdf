// What the coarse kernels, forward and backward, are made of. Device-only.
#pragma once

#include <cuda_bf16.h>

#include "src/cuda/coarse.h"
#include "src/cuda/numbers.h"
#include "src/cuda/smem_copy.h"

namespace vsa::cuda {

/// In both products a CTA has 64 columns, 8 threads of 8 each.
inline constexpr int kColumns = kCoarseColumns;
inline constexpr int kAcross = 8;

struct HeadIdx {
  int b, h, kv;
};
__device__ __forceinline__ HeadIdx head_of(const CoarseParams& p, unsigned idx) {
  const int h = static_cast<int>(idx) % p.num_heads;
  return {static_cast<int>(idx) / p.num_heads, h, h / p.group_size};
}

__device__ __forceinline__ float rounded(float x, CoarseRounding rounding) {
  return rounding == CoarseRounding::kNone ? x : __bfloat162float(__float2bfloat16_rn(x));
}
__device__ __forceinline__ float4 rounded(const float4& x, CoarseRounding rounding) {
  return {rounded(x.x, rounding), rounded(x.y, rounding), rounded(x.z, rounding),
          rounded(x.w, rounding)};
}

__device__ __forceinline__ float4& four(float* at) { return *reinterpret_cast<float4*>(at); }
__device__ __forceinline__ float4 four(const float* at) {
  return *reinterpret_cast<const float4*>(at);
}

/// 2^x, 0 where that is denormal.
__device__ __forceinline__ float exp2_flushed(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// Where a thread is among the 8 across and any number down. Of every 4 neighbouring lanes 2 have
/// the same row, and 2 the same columns: then shared memory serves 16 bytes a lane at its full
/// rate.
struct Place {
  int down, across;
};
__device__ __forceinline__ Place place_of(int thread) {
  return {(thread >> 1 & 1) | (thread >> 3 & 2) | (thread >> 5) * 4,
          (thread & 1) | (thread >> 1 & 6)};
}
/// Reduces over the threads across.
template <class Reduce>
__device__ __forceinline__ float reduce_across(float x, const Reduce& reduce) {
  for (const int mask : {1, 4, 8}) x = reduce(x, __shfl_xor_sync(kAllLanes, x, mask));
  return x;
}

template <class R>
__device__ __forceinline__ Panel panel_of(const R& x, int b, int h, int rows, int columns) {
  const float* from = static_cast<const float*>(x.data) + b * x.batch + h * x.head;
  const bool aligned =
      (reinterpret_cast<uintptr_t>(from) | static_cast<uintptr_t>(x.seq) * 4) % 16 == 0;
  return {from, x.seq, rows, columns, aligned};
}

/// What is subtracted before exp: the maximum, or 0 if there is no finite score. Then exp2(-inf) is
/// the right 0, and NaN stays.
__device__ __forceinline__ float subtracted(float most) {
  return most == kMinusInfinity ? 0.0F : most;
}

}  // namespace vsa::cuda
