// The CPU backend's entries: Highway kernels, one binary for all instruction sets, and OpenMP over
// independent work items. Host-only.
//
// A folder a stage: its entry, which hands tiles to threads, and *_kernel.cc, one tile's work,
// compiled for every target. support/: targets.h isa.cc (choice of instruction set), parallel.h,
// rows.cc (tensors to fp32 scratch and back), pack.cc gemm.cc (the matrix product).
#pragma once

#include "src/core/stage_list.h"

namespace vsa::cpu {

VSA_FOR_EACH_STAGE(VSA_DECLARE_STAGE)

}  // namespace vsa::cpu
