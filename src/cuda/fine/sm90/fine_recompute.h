// The slow path of the online softmax: scores and probabilities of a step once more, with a new
// maximum. Device-only.
//
//   consumer: s = q k^T (wgmma) -> p = exp2(s - old max) -> needs_rescale? -- no --> out += p v
//                                                               | yes, in this warp
//                                     s = q k^T (mma.sync) -> update_max -> rescale out -> p
//
// Consumers compute probabilities relative to the maximum of earlier slots, and only afterwards ask
// whether it was large enough (SoftmaxState::needs_rescale). It nearly always is, and finding the
// maximum of every step would be an eighth of a consumer's instructions. By then the scores in the
// registers have become probabilities, so a warp for which the maximum was too small computes the
// scores again from the keys, whose slots have not been released.
#pragma once

#include "src/cuda/fine/sm90/descriptor.h"
#include "src/cuda/fine/sm90/fine_softmax.h"
#include "src/cuda/fine/sm90/ptx.h"

namespace vsa::cuda::sm90 {

/// scores = q k^T for the 16 rows of this warp by mma.sync, in the registers where wgmma would put
/// them. wgmma itself needs all four warps of the warpgroup, and perhaps only one comes here.
/// @param keys  address of the slot's keys in shared memory
template <class T, int kSteps>
__device__ __forceinline__ void warp_scores(const uint32_t (&q)[kSteps][4], uint32_t keys,
                                            float (&scores)[kScores]) {
  const uint32_t lane = threadIdx.x % 32;
#pragma unroll
  for (int n = 0; n < kBlockTokens / 8; ++n) {
    float d[4] = {};
#pragma unroll
    for (int i = 0; i < kSteps; i += 2) {
      uint32_t k[4];  // B operands of 8 keys for steps i and i + 1 of head_dim
      const uint32_t slab = keys + static_cast<uint32_t>(i / 4 * kSlabBytes);
      ldmatrix_x4(k, slab + swizzled(static_cast<uint32_t>(n * 8) + lane % 8,
                                     static_cast<uint32_t>(i % 4 * 2) + lane / 8));
      warp_mma<T>(d, q[i], k[0], k[1]);
      warp_mma<T>(d, q[i + 1], k[2], k[3]);
    }
#pragma unroll
    for (int c = 0; c < 4; ++c) scores[4 * n + c] = d[c];
  }
}

/// Computes the scores of one or two slots again, raises the maxima to theirs, rescales out and the
/// sums, and turns the scores into probabilities, which are added to the sums.
/// @param keys      addresses of the slots' keys in shared memory
/// @param row_bits  which rows of the slots hold a token
/// @param last_score  of mask_scores
template <class T, int kSteps, int kSlots, int kOut>
__device__ __forceinline__ void recompute_with_new_max(const uint32_t (&q)[kSteps][4],
                                                       const uint32_t (&keys)[kSlots],
                                                       const uint64_t (&row_bits)[kSlots],
                                                       float last_score, float scale_log2,
                                                       float (&scores)[kSlots][kScores],
                                                       SoftmaxState& softmax, float (&out)[kOut]) {
#pragma unroll
  for (int c = 0; c < kSlots; ++c) {
    warp_scores<T>(q, keys[c], scores[c]);
    mask_scores(scores[c], row_bits[c], last_score);
  }
  float factor[2];
  softmax.update_max(scores, scale_log2, factor);
  rescale_rows(out, factor);
#pragma unroll
  for (int c = 0; c < kSlots; ++c) softmax.exponentiate(scores[c], scale_log2);
}

}  // namespace vsa::cuda::sm90
