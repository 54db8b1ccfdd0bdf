// Probabilities of slots whose maxima grew, made again. Device-only.
//
// Consumers turn scores into probabilities relative to the maxima of the slots before, and only
// then ask whether that was right (SoftmaxState::outgrown). Maxima seldom grow that much, and
// to look for them in every slot is an eighth of a consumer's instructions. Where they did, the
// warp makes its scores again: the keys are still there.
#pragma once

#include "src/cuda/fine/sm90/descriptor.h"
#include "src/cuda/fine/sm90/fine_softmax.h"
#include "src/cuda/fine/sm90/ptx.h"

namespace vsa::cuda::sm90 {

/// scores = q k for the warp's 16 rows, where wgmma leaves them. wgmma takes all four warps of a
/// consumer, and only one may need this.
/// @param keys  buffer of the slot in shared memory
template <class T, int kSteps>
__device__ __forceinline__ void warp_scores(const uint32_t (&q)[kSteps][4], uint32_t keys,
                                            float (&scores)[kScores]) {
  const uint32_t lane = threadIdx.x % 32;
#pragma unroll
  for (int n = 0; n < kBlockTokens / 8; ++n) {
    float d[4] = {};
#pragma unroll
    for (int i = 0; i < kSteps; i += 2) {
      uint32_t k[4];  // two steps of 8 keys
      const uint32_t slab = keys + static_cast<uint32_t>(i / 4 * kSlabBytes);
      load_matrices(k, slab + swizzled(static_cast<uint32_t>(n * 8) + lane % 8,
                                       static_cast<uint32_t>(i % 4 * 2) + lane / 8));
      warp_mma<T>(d, q[i], k[0], k[1]);
      warp_mma<T>(d, q[i + 1], k[2], k[3]);
    }
#pragma unroll
    for (int c = 0; c < 4; ++c) scores[4 * n + c] = d[c];
  }
}

/// Makes the scores of slots and their probabilities again, with maxima, and counts them in
/// softmax. What is relative to the old maxima, out, follows.
/// @param keys      buffers of the slots in shared memory
/// @param row_bits  rows of the slots that hold a token
template <class T, int kSteps, int kSlots, int kOut>
__device__ __forceinline__ void make_again(const uint32_t (&q)[kSteps][4],
                                           const uint32_t (&keys)[kSlots],
                                           const uint64_t (&row_bits)[kSlots], float scale_log2,
                                           float (&scores)[kSlots][kScores], SoftmaxState& softmax,
                                           float (&out)[kOut]) {
#pragma unroll
  for (int c = 0; c < kSlots; ++c) {
    warp_scores<T>(q, keys[c], scores[c]);
    mask_scores(scores[c], row_bits[c]);
  }
  float by[2];
  softmax.admit(scores, scale_log2, by);
  rescale_rows(out, by);
#pragma unroll
  for (int c = 0; c < kSlots; ++c) softmax.exponentiate(scores[c], scale_log2);
}

}  // namespace vsa::cuda::sm90
