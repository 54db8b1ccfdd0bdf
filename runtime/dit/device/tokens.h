// Token tensors in the buffers of the transformer's steps, and the norm of q and k. Host-only.
#pragma once

#include <cstdint>

#include "runtime/device/memory.h"
#include "runtime/dit/config.h"
#include "vsa/tensor.h"
#include "vsa/tiling.h"

namespace vsa::dit::device {

using vsa::device::Array;
using vsa::device::Memory;

/// Which of the vectors of each token: a row of the buffer is `of` of them, each [width].
struct Part {
  int64_t rows = 0;
  int64_t index = 0;
  int64_t of = 1;
};
/// That part of a buffer [rows, of, width], as [1, num_heads, rows, head_dim].
Tensor part(void* data, DType dtype, const WanConfig& config, const Part& which);

/// A vector f32 [width] for all tokens, as [1, num_heads, 1, head_dim]; empty without data.
ConstTensor vector(const void* data, const WanConfig& config);

/// Bytes of all elements; 0 of an empty tensor.
inline double bytes_of(const ConstTensor& t) {
  return t.empty() ? 0.0 : static_cast<double>(t.num_elements() * size_bytes(t.dtype));
}
/// FLOPs of attention over that many pairs of tokens in every head.
inline double attention_flops(const WanConfig& config, double pairs) {
  return 4.0 * static_cast<double>(config.width()) * pairs;
}

/// What norm_tokens is given beside the tokens; each may be left out.
struct NormTokens {
  const Array* weight = nullptr;  ///< f32 [width]; an empty one: no norm
  const Array* cos = nullptr;     ///< f32 [rows, head_dim / 2]
  const Array* sin = nullptr;
  const Array* pooled = nullptr;  ///< f32 [num_heads, num_tiles, head_dim]
};
/// RMSNorm over all heads, then the rotation, then the means of tiles; in place. Does nothing where
/// there is nothing to do.
Status norm_tokens(Memory& memory, const WanConfig& config, const TilePlan& plan, const Tensor& x,
                   const NormTokens& how);

}  // namespace vsa::dit::device
