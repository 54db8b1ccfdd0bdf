// The query rows of a consumer, in registers. Device-only.
#pragma once

#include "src/cuda/fine/sm90/descriptor.h"
#include "src/cuda/fine/sm90/ptx.h"
#include "src/cuda/plan/block.h"

namespace vsa::cuda::sm90 {

/// The A operand of all products of 64 rows with keys, from a swizzled buffer; a warpgroup
/// together.
/// @param buffer  in shared memory
/// @param sign    0x80008000 negates the rows, 0 does not
/// @param len     rows that hold a token. The others become 0: what lies there must not decide
///                whether their warp makes its scores again, which rounds otherwise.
template <int kSteps>
__device__ __forceinline__ void load_query(uint32_t (&q)[kSteps][4], uint32_t buffer, uint32_t sign,
                                           int32_t len) {
  const uint32_t row = threadIdx.x / 32 % 4 * 16 + threadIdx.x % 16;
#pragma unroll
  for (int i = 0; i < kSteps; ++i) {
    const uint32_t piece = static_cast<uint32_t>(i % 4 * 2) + threadIdx.x % 32 / 16;
    load_matrices(q[i], buffer + static_cast<uint32_t>(i / 4 * kSlabBytes) + swizzled(row, piece));
#pragma unroll
    for (int j = 0; j < 4; ++j) q[i][j] ^= sign;
  }
  if (len == kBlockTokens) return;
  const auto first = static_cast<int32_t>(threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4);
#pragma unroll
  for (int i = 0; i < kSteps; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (first + j % 2 * 8 >= len) q[i][j] = 0;  // registers 0 and 2: this row; 1 and 3: 8 below
    }
  }
}

}  // namespace vsa::cuda::sm90
