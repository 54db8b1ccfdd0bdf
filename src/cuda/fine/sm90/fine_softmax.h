// The online softmax of 64 query rows over slots of 64 keys, in the registers of wgmma.
// Device-only.
//
// A thread holds of two rows (lane / 4 and lane / 4 + 8 of its warp's 16) the columns 8 j + 2
// (lane % 4) and the next: element 4 j + c of an accumulator is column c % 2 of row c / 2.
#pragma once

#include "src/cuda/fine/sm90/ptx.h"
#include "src/cuda/fine/sm90/wgmma.h"
#include "src/cuda/support/numbers.h"

namespace vsa::cuda::sm90 {

inline constexpr int kScores = kBlockTokens / 2;  // a thread's scores of a slot

/// Scores of rows of the slot that hold no token become -inf.
__device__ __forceinline__ void mask_scores(float (&s)[kScores], uint64_t row_bits) {
  if (row_bits == ~uint64_t{0}) return;
#pragma unroll
  for (int word = 0; word < 2; ++word) {
    const uint32_t mine = static_cast<uint32_t>(row_bits >> (32 * word)) >> (threadIdx.x % 4 * 2);
#pragma unroll
    for (int i = 0; i < kScores / 2; ++i) {
      if ((mine >> (i / 4 * 8 + i % 2) & 1U) == 0) s[word * kScores / 2 + i] = kMinusInfinity;
    }
  }
}

template <int kCount>
__device__ __forceinline__ void rescale_rows(float (&out)[kCount], const float (&by)[2]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) out[i] *= by[i / 2 % 2];
}

/// What the softmax knows of a thread's two rows.
struct SoftmaxState {
  /// Probabilities are relative to the maximum of the row when it was last admitted. A later score
  /// may be larger while no thread's sum of a step exceeds this: all that counts is that a row's
  /// sums have the same maximum and nothing overflows.
  static constexpr float kMostSum = 256.0F;
  float max[2] = {kMinusInfinity, kMinusInfinity};  ///< of raw scores that were admitted
  float sum[2] = {0.0F, 0.0F};                      ///< of this thread's columns only

  /// Lets maxima grow to those of the scores of slots.
  /// @param by  what is relative to the old maxima must be multiplied by it: exactly 1 in rows
  ///            whose maximum did not grow
  template <int kSlots>
  __device__ __forceinline__ void admit(const float (&s)[kSlots][kScores], float scale_log2,
                                        float (&by)[2]) {
    float most[4] = {s[0][0], s[0][1], s[0][2], s[0][3]};  // columns apart: shorter chains
#pragma unroll
    for (int i = 4; i < kSlots * kScores; ++i) {
      most[i % 4] = fmaxf(most[i % 4], s[i / kScores][i % kScores]);
    }
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      float all = fmaxf(most[2 * row], most[2 * row + 1]);
      all = fmaxf(all, __shfl_xor_sync(~0U, all, 1));
      all = fmaxf(all, __shfl_xor_sync(~0U, all, 2));
      const float grown = fmaxf(max[row], all);  // NaN does not count
      by[row] = grown == max[row] ? 1.0F : exp2_fast((max[row] - grown) * scale_log2);
      max[row] = grown;
      sum[row] *= by[row];
    }
  }

  /// Turns admitted scores into probabilities.
  __device__ __forceinline__ void exponentiate(float (&s)[kScores], float scale_log2) {
    exponentiate(s, scale_log2, sum);
  }

  /// Turns scores into probabilities relative to the maxima so far, and adds this thread's to
  /// `sums`. Wrong if these are `outgrown`.
  __device__ __forceinline__ void exponentiate(float (&s)[kScores], float scale_log2,
                                               float (&sums)[2]) const {
    float offset[2];
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      // Without a finite score there is nothing to subtract: exp2(-inf) is the right 0.
      offset[row] = max[row] == kMinusInfinity ? 0.0F : max[row] * scale_log2;
    }
#pragma unroll
    for (int i = 0; i < kScores; ++i) {
      s[i] = exp2_fast(fmaf(s[i], scale_log2, -offset[i / 2 % 2]));
      sums[i / 2 % 2] += s[i];
    }
  }

  /// Whether scores must be admitted after all: in a row of this warp their probabilities are
  /// large, or there is no maximum yet. NaN is as right as it gets.
  /// @param sums  of this thread's probabilities of a step
  __device__ __forceinline__ bool outgrown(const float (&sums)[2]) const {
    float most[2];
#pragma unroll
    for (int row = 0; row < 2; ++row) most[row] = max[row] == kMinusInfinity ? -1.0F : kMostSum;
    return __any_sync(
               ~0U, static_cast<int>(sums[0] > most[0]) | static_cast<int>(sums[1] > most[1])) != 0;
  }

  /// Sums over all columns, after the last slot.
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

}  // namespace vsa::cuda::sm90
