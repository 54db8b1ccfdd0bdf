// Programmatic dependent launch (PDL): a kernel may start before the previous kernel on the stream
// has ended (LaunchShape::overlaps_previous), so that its launch and its first instructions overlap
// with the last CTAs of the previous kernel. Architectures before sm_90 lack it; there these
// functions do nothing. Device-only.
#pragma once

#include <cuda_runtime.h>

namespace vsa::cuda {

/// Waits until all previous kernels on the stream have ended and their writes are visible. Returns
/// at once in a kernel that was launched without overlap.
__device__ __forceinline__ void pdl_wait() {
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}

/// Waits like pdl_wait, then lets the next kernel on the stream start. Kernels call it first, so
/// that when a kernel starts all kernels but the previous one have ended.
__device__ __forceinline__ void pdl_wait_and_trigger() {
#if __CUDA_ARCH__ >= 900
  pdl_wait();
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

}  // namespace vsa::cuda
