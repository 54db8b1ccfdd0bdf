// The coarse stage forward and backward on means, in a bounded workspace. Host-only.
#pragma once

#include "src/cuda/coarse_backward.h"
#include "src/cuda/workspace.h"

namespace vsa::cuda {

/// Tensors of a call, f32; those of gradients may be empty if only `forward` is called.
struct CoarseTensors {
  ConstTensor q, k, v;  // [B, H, Nq, D], [B, H_kv, Nk, D]
  Tensor out;           // [B, H, Nq, D]: coarse_out, not rounded
  ConstTensor dout;     // [B, H, Nq, D]
  Tensor dq, dk, dv;    // dq may be `out`, dv may be v
};

/// Scores and their gradients exist for some heads at a time, 64 MiB of them or one kv head's, so
/// that they stay small beside the gradients of tokens. Scores of all heads at once are computed
/// once and kept from `forward` to `backward`.
class CoarseGradients {
 public:
  /// Takes the memory.
  CoarseGradients(Carver& workspace, const ConstTensor& q, const ConstTensor& k, bool backward);

  /// Enqueues what writes tensors.out.
  Status forward(std::string_view operation, const CoarseTensors& tensors, const int32_t* kv_len,
                 float scale, cudaStream_t stream) const;
  /// Enqueues what writes dq, dk and dv, given dout and what `forward` left behind.
  Status backward(std::string_view operation, const CoarseTensors& tensors, const int32_t* kv_len,
                  float scale, cudaStream_t stream) const;

 private:
  struct Chunk;
  template <class Run>
  Status for_each_chunk(const CoarseTensors& tensors, const int32_t* kv_len, float scale,
                        const Run& run) const;

  int64_t batch_of_chunk_ = 0, kv_heads_of_chunk_ = 0;
  Tensor scores_, dscores_;  // [batch_of_chunk, heads_of_chunk, Nq, Nk], rows of 16 bytes
  float2* stats_ = nullptr;
  CoarseRowStats* row_stats_ = nullptr;
};

}  // namespace vsa::cuda
