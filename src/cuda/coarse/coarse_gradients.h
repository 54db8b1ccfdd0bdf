// The coarse stage forward and backward on means, in a bounded workspace. Host-only.
#pragma once

#include "src/cuda/coarse/coarse_backward.h"

namespace vsa::cuda {

/// Scores and their gradients exist for some heads at a time, 64 MiB of them or one kv head's, so
/// that they stay small beside the gradients of tokens. Scores of all heads at once are computed
/// once and kept from `forward` to `backward`.
class CoarseGradients {
 public:
  /// Takes the memory, that of gradients only if `backward`.
  CoarseGradients(Carver& workspace, const ConstTensor& q, const ConstTensor& k, bool backward);

  /// Enqueues what writes `out` [B, H, Nq, D] f32: coarse_out, not rounded. Of `args` only the
  /// inputs of the stage are read.
  Status forward(const CallSite& at, const CoarseBackwardArgs& args, const Tensor& out,
                 const int32_t* kv_len) const;
  /// Enqueues what writes the gradients, given what `forward` left behind. dq_pooled may be `out`,
  /// dv_pooled v_pooled.
  Status backward(const CallSite& at, const CoarseBackwardArgs& args, const Tensor& out,
                  const int32_t* kv_len) const;

 private:
  struct Chunk;
  template <class Run>
  Status for_each_chunk(const CoarseBackwardArgs& args, const Tensor& out, const int32_t* kv_len,
                        const Run& run) const;

  int64_t batch_of_chunk_ = 0, kv_heads_of_chunk_ = 0;
  Tensor scores_, dscores_;  // [batch_of_chunk, heads_of_chunk, Nq, Nk], rows of 16 bytes
  float2* stats_ = nullptr;
  CoarseRowStats* row_stats_ = nullptr;
};

}  // namespace vsa::cuda
