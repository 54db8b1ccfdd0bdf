// Helpers of the coarse kernels, forward and backward. Device-only.
#pragma once

#include <cuda_bf16.h>

#include "src/cuda/coarse/coarse.h"
#include "src/cuda/coarse/smem_copy.h"
#include "src/cuda/support/numbers.h"

namespace vsa::cuda {

inline constexpr int kColumns = kCoarseColumns;  // of the output of a CTA, scores and out alike

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

__device__ __forceinline__ float2 two(const float* at) {
  return *reinterpret_cast<const float2*>(at);
}

/// 2^x; 0 where the result would be subnormal.
__device__ __forceinline__ float exp2_flushed(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

template <class R>
__device__ __forceinline__ Panel panel_of(const R& x, int b, int h, int rows, int columns) {
  return {static_cast<const float*>(x.data) + b * x.batch + h * x.head, x.seq, rows, columns};
}

/// Writes the first `left` of 4 adjacent floats; kAligned: `to` is a multiple of 16 bytes.
template <bool kAligned>
__device__ __forceinline__ void store_four(float* to, const float4& x, int left) {
  if (kAligned && left >= 4) {
    four(to) = x;
    return;
  }
  if (left > 0) to[0] = x.x;
  if (left > 1) to[1] = x.y;
  if (left > 2) to[2] = x.z;
  if (left > 3) to[3] = x.w;
}

/// The number that softmax subtracts from the scores of a row: the maximum, or 0 if all scores are
/// -inf, so that exp2(-inf) gives the correct 0. NaN stays NaN.
__device__ __forceinline__ float softmax_offset(float max) {
  return max == kMinusInfinity ? 0.0F : max;
}

}  // namespace vsa::cuda
