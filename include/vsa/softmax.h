// Softmax over the last axis, for attention that is computed by products. Host-only.
#pragma once

#include <cstdint>

#include "vsa/backend.h"
#include "vsa/status.h"
#include "vsa/tensor.h"

namespace vsa {

/// out_n = exp(scale * x_n) / sum_m exp(scale * x_m) over the first `columns` of a row; the others
/// are 0, and what x holds there is not read. Computed in f32 (reference: f64), rounded to the
/// dtype of out once. A NaN in a row makes it NaN.
struct SoftmaxArgs {
  ConstTensor x;        ///< [B, H, S, N] f32, such as scores that `linear` made; N a multiple of 8
  float scale = 1.0F;   ///< finite
  int64_t columns = 0;  ///< 1 to N
  Tensor out;           ///< [B, H, S, N] of a token dtype, or f32
};
/// @return InvalidArgument | Unsupported (dtype or alignment) | DeviceError
/// Cost: one read of x and one write of out where a row fits into the caches. No workspace.
/// Asynchronous on `stream`; the same bits in every run. Oracle: src/reference/softmax.cc.
Status softmax(const Context& context, const SoftmaxArgs& args);

}  // namespace vsa
