// The gradients of the fine stage, without atomics on sums: one kernel for dq, one for dk and dv.
// Host-only.
#pragma once

#include <cuda_runtime.h>

#include <string_view>

#include "src/cuda/lut_t.h"
#include "src/cuda/plan.h"
#include "src/cuda/query_statistics.h"
#include "src/cuda/workspace.h"
#include "vsa/stages.h"

namespace vsa::cuda {

/// Memory of a call: 512 bytes for each block of 64 queries of each head.
struct FineBackwardScratch {
  FineBackwardScratch() = default;
  /// @param num_heads  batch * heads of q
  FineBackwardScratch(Carver& workspace, const PlanTables& plans, int64_t num_heads)
      : statistics(workspace.take<QueryStatistics>(num_heads, plans.q().shape.num_blocks())),
        next_items(workspace.take<int32_t>(2)) {}

  QueryStatistics* statistics = nullptr;
  int32_t* next_items = nullptr;  // queues of the two kernels
};

struct FineBackwardInput {
  ConstTensor q;                 // [B, H, Sq, D] bf16 or f16, D 64 or 128
  ConstTensor k, v;              // [B, H_kv, Sk, D], dtype of q
  ConstTensor dout;              // [B, H, Sq, D], dtype of q: gate_fine * the operator's dout
  ConstTensor lse;               // [B, H, Sq, 1] f32, as `fine` gave it
  const float* delta = nullptr;  // [B, H, Sq] contiguous: sum over d of fine_out * dout
  float scale = 0.0F;
  ConstLut lut;  // [B, H, Nq, pitch]; entries that name no kv tile are ignored
  LutT lut_t;    // its transpose
  FineBackwardScratch scratch;
  // Gradients of the pooled tensors, contiguous; null: none. Every token of a tile gets the tile's
  // divided by its length.
  const float* dq_pooled = nullptr;  // [B, H, Nq, D]
  const float* dk_pooled = nullptr;  // [B, H_kv, Nk, D]
  const float* dv_pooled = nullptr;  // [B, H_kv, Nk, D]
  Tensor dq;                         // [B, H, Sq, D], dtype of q
  Tensor dk, dv;                     // [B, H_kv, Sk, D], dtype of q
};

/// Enqueues both kernels. Padding is never read, and written as 0 where the plan has it between
/// tokens (tile order). A query without a key (lse -inf) contributes nothing.
/// @param plans  on the device, built on the same stream
/// @return Unsupported (strides that the copy engine cannot read; 2^30 blocks or more in all heads)
/// Cost: 14*D FLOP per valid pair. The same inputs give the same bits.
Status run_fine_backward(std::string_view operation, const FineBackwardInput& input,
                         const PlanTables& plans, int num_sms, cudaStream_t stream);

}  // namespace vsa::cuda
