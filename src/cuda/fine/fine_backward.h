// What a family of architectures provides of the fine stage, backward. Host-only.
#pragma once

#include "src/cuda/plan/plan.h"
#include "vsa/stages.h"

namespace vsa::cuda {

/// q, k, v and dout are in compact order where their plan is scattered; the others are not.
struct FineBackwardInput {
  ConstTensor q;                 // [B, H, Sq, D] bf16 or f16, D 64 or 128
  ConstTensor k, v;              // [B, H_kv, Sk, D], dtype of q
  ConstTensor dout;              // [B, H, Sq, D], dtype of q: gate_fine * the operator's dout
  ConstTensor lse;               // [B, H, Sq, 1] f32, as `fine` gave it
  const float* delta = nullptr;  // [B, H, Sq] contiguous: sum over d of fine_out * dout
  float scale = 0.0F;
  ConstLut lut;  // [B, H, Nq, pitch]; entries that name no kv tile are ignored
  // Gradients of the pooled tensors, contiguous; null: none. The gradient of a tile, divided by its
  // length, is added to that of each of its tokens.
  const float* dq_pooled = nullptr;  // [B, H, Nq, D]
  const float* dk_pooled = nullptr;  // [B, H_kv, Nk, D]
  const float* dv_pooled = nullptr;  // [B, H_kv, Nk, D]
  Tensor dq;                         // [B, H, Sq, D], dtype of q
  Tensor dk, dv;                     // [B, H_kv, Sk, D], dtype of q
};

/// The gradients of the fine stage of one call. Its constructor takes the workspace; afterwards
/// `prepare` and `launch` are called on the device and stream of the call.
class FineBackwardRun {
 public:
  virtual ~FineBackwardRun() = default;

  /// Enqueues the kernels that compute what the backward kernels read besides the tensors.
  virtual Status prepare(const CallSite& at, const ConstLut& lut) const = 0;

  /// Enqueues the kernels, on plans that were built on the same stream. Padding is never read, and
  /// written as 0 where the plan has it between tokens (tile order). A query without a key (lse
  /// -inf) contributes nothing. The same inputs give the same bits.
  /// @return Unsupported (strides that the kernels cannot read; too many blocks in all heads)
  /// Cost: 14*D FLOP per valid pair.
  virtual Status launch(const CallSite& at, const FineBackwardInput& input,
                        const PlanTables& plans) const = 0;
};

}  // namespace vsa::cuda
