// Programmatic dependent launch: kernels of a stream that start before the one before them has
// ended (LaunchShape), so that one's launch and first instructions hide behind the other's last
// CTAs. Architectures before sm_90 lack it, and have nothing to wait for. Device-only.
#pragma once

#include <cuda_runtime.h>

namespace vsa::cuda {

/// Waits until the kernels before it have ended and what they wrote is there. Returns at once in a
/// kernel that was launched without overlap.
__device__ __forceinline__ void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}

/// The first call of a kernel: waits for those before it, then lets the next one start. So when a
/// kernel starts, all but the one before it have ended.
__device__ __forceinline__ void after_previous() {
#if __CUDA_ARCH__ >= 900
  wait_for_previous();
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

}  // namespace vsa::cuda
