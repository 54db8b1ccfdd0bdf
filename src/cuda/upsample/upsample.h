// The upsample kernel and its parameters. Host-only.
#pragma once

#include <cuda_runtime.h>

#include "src/cuda/support/launch.h"
#include "vsa/upsample.h"

namespace vsa::cuda {

struct UpsampleParams {
  const void* x = nullptr;
  void* out = nullptr;
  const float* bias = nullptr;    // [channels_in]; may be null
  int32_t height = 0, width = 0;  // of x
  int32_t channels_in = 0;        // of a pixel of x
  int32_t channels = 0;           // of a pixel of out
};
/// Enqueues the kernel.
/// @param dtype  of x and out, bf16 or f16
Status run_upsample(const CallSite& at, const UpsampleParams& params, DType dtype, int64_t frames);

}  // namespace vsa::cuda
