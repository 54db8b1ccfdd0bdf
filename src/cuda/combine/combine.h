// The combine kernel and its parameters. Host-only.
#pragma once

#include <cuda_runtime.h>

#include <string_view>

#include "src/cuda/plan/plan.h"
#include "src/cuda/support/rows.h"
#include "vsa/stages.h"

namespace vsa::cuda {

/// A gate on the device: a tensor, or a constant if data is null.
struct GateRows {
  ConstRows rows;
  float constant = 0.0F;
};

inline GateRows gate_rows(const Gate& gate) {
  if (gate.is_tensor()) return {.rows = rows_of(gate.as_tensor())};
  return {.rows = {}, .constant = gate.as_constant()};
}

struct CombineParams {
  ConstRows fine_out;                 // data may be null: no fine branch
  const float* coarse_out = nullptr;  // may be null: no coarse branch
  int64_t coarse_batch = 0, coarse_head = 0, coarse_seq = 0;
  GateRows gate_fine, gate_coarse;
  PlanTable plan;
  Rows out;
  int32_t num_heads = 0;
  int32_t head_dim = 0;
};
/// Enqueues the kernel. Padding rows of out become 0.
Status run_combine(const CallSite& at, const CombineParams& params, DType dtype, int64_t batch);

CombineParams combine_params(const CombineArgs& args, const PlanTable& plan);

}  // namespace vsa::cuda
