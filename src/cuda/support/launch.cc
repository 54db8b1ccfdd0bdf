// Turns errors of CUDA into Status, and checks the sizes of grids. Host-only.
#include "src/cuda/support/launch.h"

#include <fmt/format.h>

namespace vsa::cuda {

Status check(std::string_view operation, cudaError_t error) {
  if (error == cudaSuccess) return {};
  cudaGetLastError();  // not left behind for the caller's own checks
  const std::string text = fmt::format("[{}] device: expected success, got {}: {}", operation,
                                       cudaGetErrorName(error), cudaGetErrorString(error));
  return {error == cudaErrorMemoryAllocation ? StatusCode::kOutOfMemory : StatusCode::kDeviceError,
          text};
}

unsigned device_attributes(const LaunchShape& shape, int capability,
                           cudaLaunchAttribute (&attributes)[1]) {
  if (!shape.overlaps_previous || capability < 90) return 0;
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  return 1;
}

Status check_grid(std::string_view operation, const dim3& grid) {
  constexpr unsigned kMostX = 0x7FFFFFFFU;
  constexpr unsigned kMostYZ = 65535;
  if (grid.x <= kMostX && grid.y <= kMostYZ && grid.z <= kMostYZ) return {};
  return unsupported(fmt::format(
      "[{}] batch, heads, tiles: expected a grid of at most [{},{},{}] CTAs on the cuda backend, "
      "got [{},{},{}]; split the batch",
      operation, kMostX, kMostYZ, kMostYZ, grid.x, grid.y, grid.z));
}

}  // namespace vsa::cuda
