// The instruction set that the runtime computes with: libvsa's choice (VSA_ISA). Host-only.
#pragma once

#include <cstdint>

#include "vsa/status.h"

namespace vsa::nn {

/// Holds oneDNN to the instruction set of libvsa's CPU backend; call before anything is computed.
/// oneDNN takes no more orders once it has multiplied in this process: then its own choice stays.
/// @return Unsupported if VSA_ISA names one that this machine or this build lacks
Status check_isa();

/// The target (a HWY_* bit) whose loops ran last on any thread: written by the loops themselves,
/// for tests. 0 before the first call.
int64_t last_target();
void record_target(int64_t target);

}  // namespace vsa::nn
