// The coarse stage, forward and backward, on pooled tensors in a bounded workspace. Host-only.
#pragma once

#include "src/cuda/coarse/coarse_backward.h"

namespace vsa::cuda {

/// Scores and their gradients are computed for a chunk of heads at a time: for as many kv heads as
/// fit into 64 MiB, or for one. So they take little memory beside the gradients of tokens. If all
/// heads fit into one chunk, `backward` reads the scores that `forward` has left; otherwise it
/// computes them again.
class CoarseGradients {
 public:
  /// Takes the memory; memory for gradients only if `backward` is true.
  CoarseGradients(Carver& workspace, const ConstTensor& q, const ConstTensor& k, bool backward);

  /// Enqueues the kernels that write `out` [B, H, Nq, D] f32: coarse_out, not rounded. Of `args`
  /// only the inputs of the forward stage are read.
  Status forward(const CallSite& at, const CoarseBackwardArgs& args, const Tensor& out,
                 const int32_t* kv_len) const;
  /// Enqueues the kernels that write the gradients, after `forward`. dq_pooled may be the same
  /// memory as `out`, and dv_pooled the same as v_pooled.
  Status backward(const CallSite& at, const CoarseBackwardArgs& args, const Tensor& out,
                  const int32_t* kv_len) const;

 private:
  struct Chunk;
  template <class Run>
  Status for_each_chunk(const CoarseBackwardArgs& args, const Tensor& out, const int32_t* kv_len,
                        const Run& run) const;

  int64_t batch_of_chunk_ = 0, kv_heads_of_chunk_ = 0;
  Tensor scores_, dscores_;  // [batch_of_chunk, heads_of_chunk, Nq, Nk]
  float2* stats_ = nullptr;
  CoarseRowStats* row_stats_ = nullptr;
};

}  // namespace vsa::cuda
