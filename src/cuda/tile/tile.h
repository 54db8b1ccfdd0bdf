// The kernels of tile and untile, and their parameters. Host-only.
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
/// Enqueues the copy to tile order; padding places become 0.
Status run_tile(const CallSite& at, const ReorderParams& params, int64_t batch);
/// Enqueues the copy back from tile order; padding positions become 0.
Status run_untile(const CallSite& at, const ReorderParams& params, int64_t batch);

}  // namespace vsa::cuda
