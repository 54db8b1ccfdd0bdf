// Entrance of the fine kernel. Host-only.
#pragma once

#include <cuda_runtime.h>

#include "src/cuda/sm90/fine_params.h"
#include "vsa/status.h"
#include "vsa/tensor.h"

namespace vsa::cuda::sm90 {

/// Starts the kernel on the current device.
/// @param dtype     bf16 or f16
/// @param head_dim  64 or 128
/// @param num_sms   multiprocessors of the device
Status run_fine(const FineParams& params, DType dtype, int64_t head_dim, int num_sms,
                cudaStream_t stream);

}  // namespace vsa::cuda::sm90
