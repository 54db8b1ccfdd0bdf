// The online softmax of 64 query rows over slots of 64 keys, in the registers of wgmma.
// Device-only.
//
// Which elements a thread holds: wgmma gives a warp 16 rows, and a thread two of them,
//   row lane / 4 (c = 0, 1) and row lane / 4 + 8 (c = 2, 3),
// of which element 4 j + c of an accumulator is column 8 j + 2 (lane % 4) + c % 2. The four lanes
// of a quad (equal lane / 4) together hold a whole row.
//
// The maximum of a row is not updated in every iteration. Probabilities are
// exp2(scale_log2 (s - max)), where max may be the maximum of earlier scores alone, so a
// probability may exceed 1. out and sum are relative to the same maximum, which cancels in out /
// sum as long as nothing overflows; needs_rescale tells when an overflow is near.
#pragma once

#include "src/cuda/fine/sm90/ptx.h"
#include "src/cuda/fine/sm90/wgmma.h"
#include "src/cuda/support/numbers.h"

namespace vsa::cuda::sm90 {

inline constexpr int kScores = kBlockTokens / 2;  // scores of a thread: 64 x 64 over 128 threads

/// Sets the scores of keys to -inf where the slot's row holds no token.
/// @param last_score  added to the scores of the last row that holds one
__device__ __forceinline__ void mask_scores(float (&s)[kScores], uint64_t row_bits,
                                            float last_score) {
  if (row_bits == ~uint64_t{0}) return;
#pragma unroll
  for (int word = 0; word < 2; ++word) {
    const uint32_t bits = static_cast<uint32_t>(row_bits >> (32 * word)) >> (threadIdx.x % 4 * 2);
#pragma unroll
    for (int i = 0; i < kScores / 2; ++i) {
      if ((bits >> (i / 4 * 8 + i % 2) & 1U) == 0) s[word * kScores / 2 + i] = kMinusInfinity;
    }
  }
  // Where the last row is, from this thread's first column; the bits are not needed any more.
  const int last =
      63 - __clzll(static_cast<long long>(row_bits)) - static_cast<int>(threadIdx.x % 4 * 2);
#pragma unroll
  for (int i = 0; i < kScores; ++i) {
    if (i / 4 * 8 + i % 2 == last) s[i] += last_score;
  }
}

/// Multiplies the elements of an accumulator by the factor of their row.
template <int kCount>
__device__ __forceinline__ void rescale_rows(float (&out)[kCount], const float (&factor)[2]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) out[i] *= factor[i / 2 % 2];
}

/// The running maximum and sum of a thread's two rows.
struct SoftmaxState {
  /// The largest sum of a thread's probabilities in one iteration that needs no new maximum. No
  /// probability is larger than the sum, and f16, to which they are rounded, overflows at 2^16.
  static constexpr float kMaxUnscaledSum = 256.0F;
  float max[2] = {kMinusInfinity, kMinusInfinity};  ///< of unscaled scores; same in a quad
  float sum[2] = {0.0F, 0.0F};                      ///< of this thread's columns only

  /// Raises the maxima to those of the given scores, and rescales the sums.
  /// @param factor  out must be multiplied by it: exactly 1 in rows whose maximum did not grow
  template <int kSlots>
  __device__ __forceinline__ void update_max(const float (&s)[kSlots][kScores], float scale_log2,
                                             float (&factor)[2]) {
    // Two partial maxima for each row shorten the dependent chain.
    float partial[4] = {s[0][0], s[0][1], s[0][2], s[0][3]};
#pragma unroll
    for (int i = 4; i < kSlots * kScores; ++i) {
      partial[i % 4] = fmaxf(partial[i % 4], s[i / kScores][i % kScores]);
    }
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      float row_max = fmaxf(partial[2 * row], partial[2 * row + 1]);
      row_max = fmaxf(row_max, __shfl_xor_sync(~0U, row_max, 1));
      row_max = fmaxf(row_max, __shfl_xor_sync(~0U, row_max, 2));
      const float new_max = fmaxf(max[row], row_max);  // fmaxf ignores NaN
      factor[row] = new_max == max[row] ? 1.0F : exp2_fast((max[row] - new_max) * scale_log2);
      max[row] = new_max;
      sum[row] *= factor[row];
    }
  }

  /// Turns scores, none of them above the maximum, into probabilities, and adds them to `sum`.
  __device__ __forceinline__ void exponentiate(float (&s)[kScores], float scale_log2) {
    exponentiate(s, scale_log2, sum);
  }

  /// Turns scores into probabilities relative to the current maxima, and adds them to `sums`. If
  /// needs_rescale(sums), the result must be thrown away (fine_recompute.h).
  __device__ __forceinline__ void exponentiate(float (&s)[kScores], float scale_log2,
                                               float (&sums)[2]) const {
    float offset[2];
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      // A row without a finite score has nothing to subtract, and exp2(-inf) is the correct 0.
      offset[row] = max[row] == kMinusInfinity ? 0.0F : max[row] * scale_log2;
    }
#pragma unroll
    for (int i = 0; i < kScores; ++i) {
      s[i] = exp2_fast(fmaf(s[i], scale_log2, -offset[i / 2 % 2]));
      sums[i / 2 % 2] += s[i];
    }
  }

  /// Whether the maxima must be raised and the probabilities of this iteration computed again: some
  /// thread of the warp has a sum above kMaxUnscaledSum, or a row has no maximum yet. A sum that is
  /// NaN does not count, as no maximum would repair it. All lanes of a warp call it and get the
  /// same answer.
  /// @param sums  of this thread's probabilities in the iteration
  __device__ __forceinline__ bool needs_rescale(const float (&sums)[2]) const {
    float limit[2];
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      limit[row] = max[row] == kMinusInfinity ? -1.0F : kMaxUnscaledSum;
    }
    return __any_sync(~0U, static_cast<int>(sums[0] > limit[0]) |
                               static_cast<int>(sums[1] > limit[1])) != 0;
  }

  /// Adds up the sums of the four lanes of each row, after the last slot.
  __device__ __forceinline__ void reduce_sums() {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      sum[row] += __shfl_xor_sync(~0U, sum[row], 1);
      sum[row] += __shfl_xor_sync(~0U, sum[row], 2);
    }
  }
};

/// Rounds the probabilities of 64 keys to T, as the A operands of four wgmma of 16 keys each.
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
