// The kernels of the gradients of the coarse stage, and their parameters. Host-only.
#pragma once

#include "src/cuda/coarse/coarse.h"

namespace vsa::cuda {

/// The statistics of a row of scores that its gradients need.
struct alignas(16) CoarseRowStats {
  float max, inverse_sum;  ///< probability = exp(score - max) * inverse_sum
  float delta;             ///< dout . out
  float unused;
};

/// Parameters of the three kernels.
struct CoarseBackwardParams {
  /// Parameters and results of the forward stage. `scores` was written by run_coarse, with rows at
  /// multiples of 16 bytes, and is overwritten by the probabilities; `out` is not rounded.
  CoarseParams forward;
  ConstRows dout;             // f32 [B, H, Nq, D]
  Rows dscores;               // f32; extents and strides of forward.scores; written
  CoarseRowStats* row_stats;  // [B, H, Nq]; written
  Rows dq, dk, dv;            // f32 [B, H, Nq, D], [B, H_kv, Nk, D]; dq may be forward.out, dv v
};
/// Enqueues the kernels. The products have fp32 accuracy (tf32_product.h), and each sum has a fixed
/// order.
Status run_coarse_backward(const CallSite& at, const CoarseBackwardParams& params, int64_t batch);

}  // namespace vsa::cuda
