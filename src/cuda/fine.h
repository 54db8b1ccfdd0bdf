// The fine stage with the combine stage in its end. Host-only.
#pragma once

#include "src/cuda/combine.h"
#include "src/cuda/schedule_build.h"
#include "vsa/attention.h"

namespace vsa::cuda {

/// The coarse branch that the fine kernel adds: all of it, as its epilogue sees it.
struct CoarseBranch {
  const float* out = nullptr;  // [B, H, Nq, D] contiguous; null: none
  GateRows gate;
};

/// Starts the kernel on tables and a schedule (of args.lut) that were built on the same stream:
///   args.out = gate_fine * fine + gate * coarse
Status run_fine_stage(const FineArgs& args, const PlanTables& plans, const Schedule& schedule,
                      float gate_fine, const CoarseBranch& coarse, int num_sms,
                      cudaStream_t stream);

}  // namespace vsa::cuda
