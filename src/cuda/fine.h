// The fine stage with the combine stage in its end. Host-only.
#pragma once

#include <cuda_runtime.h>

#include <string_view>

#include "src/cuda/combine.h"
#include "src/cuda/schedule_build.h"
#include "vsa/attention.h"

namespace vsa::cuda {

/// What the fine kernel combines its result with in its epilogue; by default nothing.
struct FineCombine {
  float gate_fine = 1.0F;
  const float* coarse_out = nullptr;  // [B, H, Nq, D] contiguous; null: no coarse branch
  GateRows gate_coarse;
};

/// Where a call runs, and the name that its messages begin with.
struct FineLaunch {
  std::string_view operation;
  int num_sms;
  cudaStream_t stream;
};

/// Starts the kernel on tables and a schedule (of args.lut) that were built on the same stream:
///   args.out = gate_fine * fine + gate_coarse * coarse_out
/// What it reads besides the schedule was there before the last kernel that built that started.
/// @param launch  units are dealt out for so many multiprocessors; the bits do not depend on it
Status run_fine_stage(const FineLaunch& launch, const FineArgs& args, const PlanTables& plans,
                      const Schedule& schedule, const FineCombine& combine);

}  // namespace vsa::cuda
