// Kernels of the coarse stage's gradients, and their parameters. Host-only.
#pragma once

#include "src/cuda/coarse/coarse.h"

namespace vsa::cuda {

/// What the gradients need to know of a row of scores.
struct alignas(16) CoarseRowStats {
  float max, inverse_sum;  ///< probability = exp(score - max) * inverse_sum
  float delta;             ///< dout . out
  float unused;
};

/// The coarse stage forward as its gradients see it, and room for them.
struct CoarseBackwardParams {
  /// `scores` holds what `run_coarse` wrote, in rows at multiples of 16 bytes, and becomes the
  /// probabilities; `out` is not rounded.
  CoarseParams forward;
  ConstRows dout;             // f32 [B, H, Nq, D]
  Rows dscores;               // f32; extents and strides of forward.scores; written
  CoarseRowStats* row_stats;  // [B, H, Nq]; written
  Rows dq, dk, dv;            // f32 [B, H, Nq, D], [B, H_kv, Nk, D]; dq may be forward.out, dv v
};
/// All products in fp32, each element summed by one thread in a fixed order.
Status run_coarse_backward(const CallSite& at, const CoarseBackwardParams& params, int64_t batch);

}  // namespace vsa::cuda
