// The online softmax of 64 query rows over steps of 64 keys, in the registers of wgmma.
// Device-only.
//
// A thread holds of two rows (lane / 4 and lane / 4 + 8 of its warp's 16) the columns 8 j + 2
// (lane % 4) and the next: element 4 j + c of an accumulator is column c % 2 of row c / 2.
#pragma once

#include "src/cuda/sm90/ptx.h"
#include "src/cuda/sm90/wgmma.h"

namespace vsa::cuda::sm90 {

inline constexpr int kScores = kBlockTokens / 2;  // a thread's scores of a step
inline constexpr float kMinusInfinity = -__builtin_huge_valf();

/// Scores of rows of the slot that hold no token become -inf.
__device__ __forceinline__ void mask_scores(float (&s)[kScores], uint64_t row_bits) {
  const uint64_t mine = row_bits >> (threadIdx.x % 4 * 2);
#pragma unroll
  for (int i = 0; i < kScores; ++i) {
    if ((mine >> (i / 4 * 8 + i % 2) & 1U) == 0) s[i] = kMinusInfinity;
  }
}

/// What the softmax knows of a thread's two rows.
struct SoftmaxState {
  static constexpr float kSlack = 8.0F;             ///< probabilities are at most 2^kSlack
  float max[2] = {kMinusInfinity, kMinusInfinity};  ///< of raw scores, or up to kSlack below
  float sum[2] = {0.0F, 0.0F};                      ///< of this thread's columns only

  /// Turns scores into probabilities relative to the new maximum; `rescale` is what earlier sums
  /// must be multiplied by, exactly 1 where nothing changed. A maximum that grew by at most 8
  /// powers of two stays the reference: all that counts is that every sum has the same one and
  /// nothing overflows.
  __device__ __forceinline__ void step(float (&s)[kScores], float scale_log2, float (&rescale)[2]) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      float most = max[row];
#pragma unroll
      for (int j = 0; j < kScores / 4; ++j) {
        most = fmaxf(most, fmaxf(s[4 * j + 2 * row], s[4 * j + 2 * row + 1]));
      }
      most = fmaxf(most, __shfl_xor_sync(~0U, most, 1));
      most = fmaxf(most, __shfl_xor_sync(~0U, most, 2));
      if ((most - max[row]) * scale_log2 <= kSlack) most = max[row];
      // Without a finite score there is nothing to subtract: exp2(-inf) is the right 0.
      const float offset = most == kMinusInfinity ? 0.0F : most * scale_log2;
      rescale[row] = most == max[row] ? 1.0F : exp2_fast((max[row] - most) * scale_log2);
      max[row] = most;
      float added = 0.0F;
#pragma unroll
      for (int j = 0; j < kScores / 4; ++j) {
#pragma unroll
        for (int c = 2 * row; c < 2 * row + 2; ++c) {
          s[4 * j + c] = exp2_fast(fmaf(s[4 * j + c], scale_log2, -offset));
          added += s[4 * j + c];
        }
      }
      sum[row] = sum[row] * rescale[row] + added;
    }
  }

  /// Sums over all columns, after the last step.
  __device__ __forceinline__ void finish() {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      sum[row] += __shfl_xor_sync(~0U, sum[row], 1);
      sum[row] += __shfl_xor_sync(~0U, sum[row], 2);
    }
  }
};

/// Probabilities as the A operand of four wgmma of 16 keys each.
template <class T>
__device__ __forceinline__ void pack_probabilities(const float (&s)[kScores],
                                                   uint32_t (&p)[kBlockTokens / 16][4]) {
#pragma unroll
  for (int i = 0; i < kBlockTokens / 16; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) p[i][j] = HalfType<T>::pack(s[8 * i + 2 * j], s[8 * i + 2 * j + 1]);
  }
}

template <int kCount>
__device__ __forceinline__ void rescale_rows(float (&out)[kCount], const float (&by)[2]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) out[i] *= by[i / 2 % 2];
}

}  // namespace vsa::cuda::sm90
