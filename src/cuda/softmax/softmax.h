// The softmax kernel and its parameters. Host-only.
#pragma once

#include <cuda_runtime.h>

#include <array>

#include "src/cuda/support/launch.h"
#include "src/cuda/support/rows.h"
#include "vsa/softmax.h"

namespace vsa::cuda {

struct SoftmaxParams {
  ConstRows x;  // f32
  Rows out;     // bf16, f16 or f32
  float scale = 1.0F;
  int64_t columns = 0, width = 0;  // that count, and of a row
};
/// Enqueues the kernel.
/// @param dtype  of out
/// @param shape  of x
Status run_softmax(const CallSite& at, const SoftmaxParams& params, DType dtype,
                   const std::array<int64_t, 4>& shape);

}  // namespace vsa::cuda
