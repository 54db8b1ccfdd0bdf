// Which instruction sets the runtime's own loops are compiled for, and how to call the one that was
// chosen. To be included before any Highway header. Host-only.
//
// A file of loops is compiled once for each target (HWY_TARGET_INCLUDE names the file itself);
// norm.cc is a short one to copy from. The choice is libvsa's, so one VSA_ISA holds for both.
#pragma once

#include <cstddef>

// The targets of libvsa's CPU backend: AVX2 and AVX3 (AVX-512) on x86, NEON on Arm, and on either
// what the compiler may use anyway.
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)

namespace vsa::nn {

/// Position of the chosen target in Highway's dispatch tables. Throws vsa::Error (Unsupported) if
/// VSA_ISA names an instruction set that is not there; see check_isa().
size_t dispatch_idx();

}  // namespace vsa::nn

/// The function `name` as compiled for the chosen target; after HWY_EXPORT(name). A build with one
/// target only has tables of one entry.
#define VSA_NN_DISPATCH(name) \
  (*HWY_DISPATCH_TABLE(       \
      name)[(HWY_TARGETS & (HWY_TARGETS - 1)) == 0 ? 0 : ::vsa::nn::dispatch_idx()])
