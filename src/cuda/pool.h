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
  int32_t head_dim = 0;
};
Status run_pool(std::string_view operation, const PoolParams& params, DType dtype, int64_t batch,
                cudaStream_t stream);

}  // namespace vsa::cuda
