// What the launch of a fine kernel, forward or backward, depends on besides its parameters.
// Host-only.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <string_view>

#include "vsa/tensor.h"

namespace vsa::cuda::sm90 {

struct KernelLaunch {
  std::string_view operation;  // of the call, for messages
  DType dtype;                 // bf16 or f16
  int64_t head_dim;            // 64 or 128
  int num_sms;                 // multiprocessors of the device
  cudaStream_t stream;
};

}  // namespace vsa::cuda::sm90
