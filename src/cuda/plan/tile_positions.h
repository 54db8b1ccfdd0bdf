// Computes where the tokens of a tile lie in the sequence. Device-only.
#pragma once

#include "src/cuda/plan/plan.h"

namespace vsa::cuda {

inline constexpr int kMaxTileRows = 256;

/// Writes the positions of the tile's tokens, in tile order, and after them those of its padding
/// rows if the plan has any, to `positions` in shared memory (kMaxTileRows). All threads of the CTA
/// call it; it ends with __syncthreads.
/// @return the number of rows, of which the first tile_len[tile] are tokens and the rest padding
__device__ __forceinline__ int tile_positions(const PlanTable& plan, int tile, int32_t* positions) {
  int begin = 0;
  for (int s = 0; s < plan.shape.blocks_per_tile; ++s) {
    const Block block = plan.blocks[static_cast<int64_t>(tile) * plan.shape.blocks_per_tile + s];
    for (int r = static_cast<int>(threadIdx.x); r < block.rows();
         r += static_cast<int>(blockDim.x)) {
      positions[begin + r] = position_of(plan.shape, block, r);
    }
    begin += block.rows();
  }
  __syncthreads();
  return begin;
}

}  // namespace vsa::cuda
