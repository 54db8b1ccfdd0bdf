// Seeded inputs of the GPU bench, made on the device. Host-only.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "vsa/tensor.h"
#include "vsa/tiling.h"

namespace vsa::bench {

/// Prints and ends the program unless the CUDA call worked.
void require(cudaError_t error, const char* what);

/// Device memory that is freed with it.
class DeviceMemory {
 public:
  explicit DeviceMemory(int64_t bytes);
  ~DeviceMemory() { cudaFree(data_); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

/// Fills `count` bf16 or f16 from N(0, 1).
void fill_normal(void* data, DType dtype, int64_t count, uint64_t seed);

/// Scores whose top-k gives lists like those of a video: minus the squared distance of the tiles,
/// plus noise; or noise alone.
/// @param scores  f32 [num_heads, n, n], n tiles of the plan
void fill_scores(float* scores, int64_t num_heads, const TilePlan& plan, bool local, uint64_t seed);

}  // namespace vsa::bench
