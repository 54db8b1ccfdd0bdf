// Copies a block of tokens from the caller's layout into a buffer in shared memory by TMA.
// Device-only.
#pragma once

#include "src/cuda/fine/sm90/fine_params.h"
#include "src/cuda/fine/sm90/ptx.h"
#include "src/cuda/plan/block.h"

namespace vsa::cuda::sm90 {

/// A buffer consists of kSlabs slabs of 64 rows x 64 elements (descriptor.h).
template <int kSlabs>
struct BlockCopy {
  /// The bytes that copying the block completes on its barrier.
  __device__ __forceinline__ static uint32_t bytes(const Block& block) {
    return static_cast<uint32_t>(block.len() * kRowBytes * kSlabs);
  }

  /// Starts copying the block's valid rows to the rows of `buffer` from `row` on. One thread calls
  /// it. A cuboid is one box in each slab; a run is several boxes whose lengths are powers of two,
  /// so that nothing beyond its end is read.
  __device__ __forceinline__ static void start(const BoxMaps& maps, const Block& block,
                                               uint32_t buffer, int32_t row, int32_t head,
                                               uint32_t barrier) {
    buffer += static_cast<uint32_t>(row * kRowBytes);
    if (block.len() == 0) return;
    if (block.kind() != Block::kRun) {
      start_slabs(&maps.box[block.kind()], {0, block.w, block.h, block.f, head}, buffer, barrier);
      return;
    }
    int32_t w = block.w;
#pragma unroll 1
    for (int i = 6; i >= 0; --i) {
      if ((block.len() >> i & 1) == 0) continue;
      start_slabs(&maps.box[kRunBox + i], {0, w, 0, 0, head}, buffer, barrier);
      w += 1 << i;
      buffer += static_cast<uint32_t>(kRowBytes << i);
    }
  }

  /// Zeroes the rows whose bit in `bits` is 0. All lanes of a warp call it.
  __device__ __forceinline__ static void zero_other_rows(uint32_t buffer, uint64_t bits,
                                                         uint32_t lane) {
    for (uint32_t row = lane; row < kBlockTokens; row += 32) {
      if ((bits >> row & 1U) != 0) continue;
#pragma unroll
      for (int slab = 0; slab < kSlabs; ++slab) {
        for (uint32_t piece = 0; piece < kRowBytes; piece += 16) {
          store_zero16(buffer + slab * kSlabBytes + row * kRowBytes + piece);
        }
      }
    }
    fence_async_shared();
    __syncwarp();
  }

 private:
  __device__ __forceinline__ static void start_slabs(const CUtensorMap* map, Box at, uint32_t to,
                                                     uint32_t barrier) {
#pragma unroll
    for (int slab = 0; slab < kSlabs; ++slab) {
      at.d = slab * kSlabElements;
      copy_box(to + slab * kSlabBytes, map, at, barrier);
    }
  }
};

}  // namespace vsa::cuda::sm90
