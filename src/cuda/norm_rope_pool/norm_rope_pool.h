// The norm_rope_pool kernel and its parameters. Host-only.
#pragma once

#include <cuda_runtime.h>

#include <string_view>

#include "src/cuda/plan/plan.h"
#include "src/cuda/support/rows.h"
#include "vsa/norm_rope_pool.h"

namespace vsa::cuda {

struct NormRopePoolParams {
  Rows x;  // bf16 or f16, in place
  PlanTable plan;
  ConstRows weight;    // f32 [1, H, 1, D]; data may be null
  ConstRows rstd;      // f32 [B, H or 1, S, 1]; data may be null
  ConstRows cos, sin;  // f32 [1, 1, S, D / 2]; data may be null
  Rows pooled;         // f32 [B, H, N, D]; data may be null
  NormOver norm = NormOver::kNothing;
  float eps = 0.0F;
  int32_t num_heads = 0;
  int32_t head_dim = 0;  // 64 or 128
};
/// Enqueues the kernel.
Status run_norm_rope_pool(const CallSite& at, const NormRopePoolParams& params, DType dtype,
                          int64_t batch);

}  // namespace vsa::cuda
