// What the launch of a fine kernel, forward or backward, depends on besides its parameters.
// Host-only.
#pragma once

#include "src/cuda/support/launch.h"
#include "vsa/tensor.h"

namespace vsa::cuda::sm90 {

struct KernelLaunch {
  CallSite at;
  DType dtype;       // bf16 or f16
  int64_t head_dim;  // 64 or 128
};

}  // namespace vsa::cuda::sm90
