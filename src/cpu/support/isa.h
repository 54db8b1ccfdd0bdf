// The instruction set that the CPU backend runs on: chosen once per process. Host-only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace vsa::cpu {

/// What runs, or why nothing can.
struct IsaChoice {
  int64_t target = 0;     ///< a HWY_* bit; 0 if there is none
  std::string_view name;  ///< as in VSA_ISA; empty if there is none
  std::string detail;     ///< "AVX-512 (AVX3)", or the reason why there is none
};

/// The choice for a value of VSA_ISA: empty takes the best of those that are compiled in and that
/// this machine has. A name that is unknown, not compiled in or not supported by this machine gives
/// no target and a detail that lists what there is.
IsaChoice choose_isa(const std::string& wanted);

/// The choice of this process, by the environment variable VSA_ISA at the first call.
const IsaChoice& isa();

/// The target (a HWY_* bit) whose code ran last on any thread: written by the kernels themselves,
/// for tests. 0 before the first call.
int64_t last_target();
void record_target(int64_t target);

}  // namespace vsa::cpu
