// Kernels of tile and untile. Host-only.
#pragma once

#include "src/cuda/plan/plan.h"
#include "src/cuda/support/rows.h"

namespace vsa::cuda {

struct ReorderParams {
  ConstRows from;
  Rows to;
  PlanTable plan;
  int32_t num_heads = 0;
  int32_t head_dim = 0;
};
/// Into tile order; padding slots 0.
Status run_tile(const CallSite& at, const ReorderParams& params, int64_t batch);
/// Back from tile order; padding positions 0.
Status run_untile(const CallSite& at, const ReorderParams& params, int64_t batch);

}  // namespace vsa::cuda
