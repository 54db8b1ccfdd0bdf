// Entrances of the kernels of the fine backward. Host-only.
#pragma once

#include <cuda_runtime.h>

#include <string_view>

#include "src/cuda/sm90/fine_backward_params.h"
#include "vsa/status.h"
#include "vsa/tensor.h"

namespace vsa::cuda::sm90 {

struct FineBackwardLaunch {
  std::string_view operation;
  DType dtype;       // bf16 or f16
  int64_t head_dim;  // 64 or 128
  int num_sms;
  cudaStream_t stream;
};

/// Each starts one kernel on the current device, for params.num_items items.
Status run_fine_dq(const FineBackwardParams& params, const FineBackwardLaunch& launch);
Status run_fine_dkv(const FineBackwardParams& params, const FineBackwardLaunch& launch);

}  // namespace vsa::cuda::sm90
