// Loads the query rows of a consumer from shared memory into registers. Device-only.
#pragma once

#include "src/cuda/fine/sm90/descriptor.h"
#include "src/cuda/fine/sm90/ptx.h"
#include "src/cuda/plan/block.h"

namespace vsa::cuda::sm90 {

/// Loads 64 query rows from a swizzled buffer as the A operands of all products with keys. All
/// threads of a warpgroup call it.
/// @param buffer  address in shared memory
/// @param sign    0x80008000 negates the rows, 0 does not
/// @param len     number of rows that hold a token. The other rows become 0: old data there must
///                not decide whether the warp recomputes its scores, because mma.sync rounds
///                differently from wgmma.
template <int kSteps>
__device__ __forceinline__ void load_query(uint32_t (&q)[kSteps][4], uint32_t buffer, uint32_t sign,
                                           int32_t len) {
  const uint32_t row = threadIdx.x / 32 % 4 * 16 + threadIdx.x % 16;
#pragma unroll
  for (int i = 0; i < kSteps; ++i) {
    const uint32_t piece = static_cast<uint32_t>(i % 4 * 2) + threadIdx.x % 32 / 16;
    ldmatrix_x4(q[i], buffer + static_cast<uint32_t>(i / 4 * kSlabBytes) + swizzled(row, piece));
#pragma unroll
    for (int j = 0; j < 4; ++j) q[i][j] ^= sign;
  }
  if (len == kBlockTokens) return;
  const auto first = static_cast<int32_t>(threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4);
#pragma unroll
  for (int i = 0; i < kSteps; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      // Registers 0 and 2 hold row `first`, registers 1 and 3 the row 8 below it.
      if (first + j % 2 * 8 >= len) q[i][j] = 0;
    }
  }
}

}  // namespace vsa::cuda::sm90
