// Which instruction sets the dispatched files are compiled for, and how to call the one that was
// chosen. To be included before any Highway header. Host-only.
//
// A dispatched file is compiled once for each target and looks like this:
//
//   #include "src/cpu/support/targets.h"
//   #define HWY_TARGET_INCLUDE "src/cpu/this_file.cc"
//   #include "hwy/foreach_target.h"
//   #include "hwy/highway.h"
//   HWY_BEFORE_NAMESPACE();
//   namespace vsa::cpu::HWY_NAMESPACE { void Work(...) {...} }
//   HWY_AFTER_NAMESPACE();
//   #if HWY_ONCE
//   HWY_EXPORT(Work);
//   void work(...) { VSA_CPU_DISPATCH(Work)(...); }
//   #endif
#pragma once

#include <cstddef>

// AVX2 and AVX3 (AVX-512 F, BW, CD, DQ, VL) on x86, NEON on Arm, and on either what the compiler
// may use anyway. The steps between them gain little here and cost compile time.
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)

namespace vsa::cpu {

/// Position of the chosen target in Highway's dispatch tables. Highway's own choice is not used:
/// it is one for the whole process, so forcing it would also change other users of the library.
size_t dispatch_idx();

}  // namespace vsa::cpu

/// The function `name` as compiled for the chosen target; after HWY_EXPORT(name). A build with one
/// target only has tables of one entry.
#define VSA_CPU_DISPATCH(name) \
  (*HWY_DISPATCH_TABLE(        \
      name)[(HWY_TARGETS & (HWY_TARGETS - 1)) == 0 ? 0 : ::vsa::cpu::dispatch_idx()])
