// The instruction set that the runtime computes with: libvsa's choice (VSA_ISA). Host-only.
#pragma once

#include <cstdint>

#include "vsa/status.h"

namespace vsa::nn {

/// Limits oneDNN to the instruction set of libvsa's CPU backend. Call it before anything is
/// computed: once oneDNN has multiplied in this process, it keeps the instruction set that it chose
/// itself.
/// @return Unsupported if VSA_ISA names one that this machine or this build lacks
Status check_isa();

/// The target (a HWY_* bit) whose loops ran last on any thread: written by the loops themselves,
/// for tests. 0 before the first call.
int64_t last_target();
void record_target(int64_t target);

}  // namespace vsa::nn
