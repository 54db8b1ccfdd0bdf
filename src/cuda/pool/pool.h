// The kernels of pool and pool_backward, and their parameters. Host-only.
#pragma once

#include <string_view>

#include "src/cuda/plan/plan.h"
#include "src/cuda/support/rows.h"

namespace vsa::cuda {

/// One tensor and its means.
struct PoolPart {
  ConstRows x;  // bf16 or f16
  PlanTable plan;
  int32_t num_heads = 0;
  Rows pooled;  // f32
};
struct PoolParams {
  PoolPart part[3];
  int32_t num_parts = 0;
  int32_t head_dim = 0;  // 64 or 128

  /// Adds a tensor. At most three; all have the same head_dim.
  void add(const ConstTensor& x, const PlanTable& plan, const Tensor& pooled) {
    part[num_parts++] = {.x = rows_of(x),
                         .plan = plan,
                         .num_heads = static_cast<int32_t>(x.shape[1]),
                         .pooled = rows_of(pooled)};
    head_dim = static_cast<int32_t>(x.shape[3]);
  }
};
/// Enqueues the kernel that computes the means of all parts, if there are any.
Status run_pool(const CallSite& at, const PoolParams& params, DType dtype, int64_t batch);

struct PoolBackwardParams {
  ConstRows dpooled;  // f32 [B, H, N, D]; null: zeros
  PlanTable plan;
  Rows dx;
  int32_t num_heads = 0;
  int32_t head_dim = 0;  // 64 or 128
};
/// Enqueues the kernel: dx = dpooled / tile_len of the token's tile; padding rows become 0.
Status run_pool_backward(const CallSite& at, const PoolBackwardParams& params, DType dtype,
                         int64_t batch);

/// Enqueues pool_backward with the tables of a plan.
/// @param dpooled  may be empty: zeros
Status enqueue_pool_backward(const CallSite& at, const ConstTensor& dpooled, const PlanTable& plan,
                             const Tensor& dx);

}  // namespace vsa::cuda
