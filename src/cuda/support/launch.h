// Kernel launches whose outcome is checked. Host-only.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

#include "vsa/backend.h"
#include "vsa/status.h"

namespace vsa::cuda {

/// Ok, or DeviceError with the operation and what CUDA says.
Status check(std::string_view operation, cudaError_t error);

/// Where a call's kernels go, and the name that its messages begin with.
struct CallSite {
  std::string_view operation;
  int num_sms = 0;     ///< multiprocessors of the device
  int capability = 0;  ///< of the device, major * 10 + minor
  cudaStream_t stream = nullptr;
};

/// An extent that is known to fit, as kernels take it.
constexpr int32_t narrow(int64_t extent) { return static_cast<int32_t>(extent); }

/// CTAs along an axis of a grid. A number that 32 bits do not hold becomes the largest one that
/// they hold, which check_grid refuses.
constexpr unsigned grid_extent(int64_t ctas) {
  return static_cast<unsigned>(std::min<int64_t>(ctas, UINT32_MAX));
}
/// CTAs along an axis of a grid, where each CTA has `each` of the items.
constexpr unsigned grid_extent(int64_t items, int64_t each) {
  return grid_extent((items + each - 1) / each);
}

struct LaunchShape {
  dim3 grid, block;
  int smem_bytes = 0;  ///< dynamic
  /// The kernel may start before the previous one on the stream has ended. It calls
  /// pdl_wait_and_trigger or pdl_wait (pdl.h) before it accesses memory, or documents why it need
  /// not.
  bool overlaps_previous = false;
};

/// Unsupported if the grid is larger than a device takes: 2^31 - 1 CTAs along x, 65535 along y, z.
Status check_grid(std::string_view operation, const dim3& grid);

/// Sets the attributes of a launch that only some devices support: from compute capability 9.0 on
/// the overlap with the previous kernel (programmatic dependent launch). On other devices the
/// kernel starts when the previous one has ended.
/// @return how many of `attributes` are set
unsigned device_attributes(const LaunchShape& shape, int capability,
                           cudaLaunchAttribute (&attributes)[1]);

/// kernel<<<shape>>>(args...). The Status is that of this launch, not of earlier ones.
template <class... Params, class... Args>
Status launch(const CallSite& at, void (*kernel)(Params...), const LaunchShape& shape,
              Args&&... args) {
  VSA_TRY(check_grid(at.operation, shape.grid));
  constexpr int kWithoutAsking = 48 << 10;
  if (shape.smem_bytes > kWithoutAsking) {
    VSA_TRY(check(at.operation,
                  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                       shape.smem_bytes)));
  }
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = static_cast<size_t>(shape.smem_bytes);
  config.stream = at.stream;
  cudaLaunchAttribute attributes[1];
  config.attrs = attributes;
  config.numAttrs = device_attributes(shape, at.capability, attributes);
  return check(at.operation, cudaLaunchKernelEx(&config, kernel, std::forward<Args>(args)...));
}

}  // namespace vsa::cuda
