// What CUDA's errors become. Host-only.
#include "src/cuda/launch.h"

#include <fmt/format.h>

namespace vsa::cuda {

Status check(std::string_view operation, cudaError_t error) {
  if (error == cudaSuccess) return {};
  const std::string text = fmt::format("[{}] device: expected success, got {}: {}", operation,
                                       cudaGetErrorName(error), cudaGetErrorString(error));
  return {error == cudaErrorMemoryAllocation ? StatusCode::kOutOfMemory : StatusCode::kDeviceError,
          text};
}

}  // namespace vsa::cuda
