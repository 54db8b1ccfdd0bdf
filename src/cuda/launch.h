// Kernel launches whose outcome is checked, and the device they go to. Host-only.
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

inline cudaStream_t stream_of(const Context& context) {
  return static_cast<cudaStream_t>(context.stream);
}

/// An extent that is known to fit, as kernels take it.
constexpr int32_t narrow(int64_t extent) { return static_cast<int32_t>(extent); }

/// CTAs along an axis of a grid. What 32 bits do not hold is cut to what check_grid refuses.
constexpr unsigned grid_extent(int64_t ctas) {
  return static_cast<unsigned>(std::min<int64_t>(ctas, UINT32_MAX));
}
/// CTAs of `each` items.
constexpr unsigned grid_extent(int64_t items, int64_t each) {
  return grid_extent((items + each - 1) / each);
}

struct LaunchShape {
  dim3 grid, block;
  int smem_bytes = 0;  ///< dynamic
  cudaStream_t stream = nullptr;
  /// May start before the kernel before it on the stream has ended; it calls after_previous
  /// or wait_for_previous (chain.h) before it touches memory, or says why it may do so earlier.
  bool overlaps_previous = false;
};

/// Unsupported if the grid is larger than a device takes: 2^31 - 1 CTAs along x, 65535 along y, z.
Status check_grid(std::string_view operation, const dim3& grid);

/// kernel<<<shape>>>(args...), with the error of this launch alone.
template <class... Params, class... Args>
Status launch(std::string_view operation, void (*kernel)(Params...), const LaunchShape& shape,
              Args&&... args) {
  VSA_TRY(check_grid(operation, shape.grid));
  constexpr int kWithoutAsking = 48 << 10;
  if (shape.smem_bytes > kWithoutAsking) {
    VSA_TRY(
        check(operation, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                              shape.smem_bytes)));
  }
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = static_cast<size_t>(shape.smem_bytes);
  config.stream = shape.stream;
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &overlap;
  config.numAttrs = shape.overlaps_previous ? 1 : 0;
  return check(operation, cudaLaunchKernelEx(&config, kernel, std::forward<Args>(args)...));
}

}  // namespace vsa::cuda
