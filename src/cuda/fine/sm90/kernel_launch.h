// Where and for which types a fine kernel, forward or backward, is launched. Host-only.
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
