// Entrance of the pool kernel. Host-only.
#pragma once

#include <string_view>

#include "src/cuda/plan.h"
#include "src/cuda/rows.h"

namespace vsa::cuda {

/// One tensor and where its means go.
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

  /// One more tensor, at most three, all of one head_dim.
  void add(const ConstTensor& x, const PlanTable& plan, const Tensor& pooled) {
    part[num_parts++] = {.x = rows_of(x),
                         .plan = plan,
                         .num_heads = static_cast<int32_t>(x.shape[1]),
                         .pooled = rows_of(pooled)};
    head_dim = static_cast<int32_t>(x.shape[3]);
  }
};
/// Enqueues the means of all parts.
Status run_pool(std::string_view operation, const PoolParams& params, DType dtype, int64_t batch,
                cudaStream_t stream);

}  // namespace vsa::cuda
