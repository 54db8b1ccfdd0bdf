// What the consumers of both backward fine kernels share: packing operands, starting products, and
// storing gradients in the epilogue. Device-only.
//
// fine_softmax.h says which elements of a product a thread holds.
#pragma once

#include "src/cuda/fine/sm90/fine_backward_params.h"
#include "src/cuda/fine/sm90/fine_epilogue.h"
#include "src/cuda/fine/sm90/fine_softmax.h"
#include "src/cuda/fine/sm90/slot_metadata.h"
#include "src/cuda/fine/sm90/wgmma.h"

namespace vsa::cuda::sm90 {

inline constexpr int kRowSteps = kBlockTokens / 16;  // wgmma of k = 16 along the rows of a slot

/// Rounds 64 x 64 values times a factor to T, as the A operands of four wgmma of 16 columns each.
template <class T>
__device__ __forceinline__ void pack_operand(const float (&x)[kScores],
                                             uint32_t (&to)[kRowSteps][4], float factor = 1.0F) {
#pragma unroll
  for (int i = 0; i < kRowSteps; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int at = 8 * i + 2 * j;
      to[i][j] = HalfType<T>::pack(x[at] * factor, x[at + 1] * factor);
    }
  }
}

/// Starts x += a b, where b is the 64 rows at address `buffer` in shared memory.
template <class T, int kCount>
__device__ __forceinline__ void start_accumulate(float (&x)[kCount],
                                                 const uint32_t (&a)[kRowSteps][4],
                                                 uint32_t buffer) {
  const Descriptor b(v_descriptor(warp_uniform(buffer)));
  fence_registers(x);
  wgmma_fence();
#pragma unroll
  for (int i = 0; i < kRowSteps; ++i) wgmma<T, 1>(x, a[i], b.advanced(v_advance(i)), 1);
  wgmma_commit();
  fence_registers(x);
}

__device__ __forceinline__ void warp_arrive(const uint64_t& barrier) {
  warp_arrive(smem_address(&barrier));
}

/// The row of the block that is row `half` (0 or 1) of this thread.
__device__ __forceinline__ int32_t row_of_thread(int half) {
  return static_cast<int32_t>(threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4) + half * 8;
}

/// Where the gradient of a block's tokens is stored, and the gradient of pooling that is added to
/// it.
struct GradientRows {
  Rows to;
  int32_t b, h;
  const float* pooled;  // [head_dim] of the tile; null: none
  float pooled_factor;  // 1 / tile_len
};

/// Stores factor * x + pooled_factor * pooled for the tokens of a block, and 0 in padding rows. As
/// in fine_epilogue.h, the lanes of a quad exchange columns so that each has 8 adjacent ones.
template <class T, int kHeadDim>
__device__ __forceinline__ void store_gradient(const float (&x)[kHeadDim / 2], float factor,
                                               const GradientRows& rows, const PlanShape& plan,
                                               const Block& block) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int32_t row = row_of_thread(half);
    T* const to = static_cast<T*>(rows.to.data) + rows.b * rows.to.batch + rows.h * rows.to.head +
                  position_of(plan, block, row) * rows.to.seq;
#pragma unroll
    for (int i = 0; i < kHeadDim / 32; ++i) {
      float y[8];
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        float four[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) four[j] = x[(i * 4 + j) * 4 + half * 2 + c];
        transpose4(four);
#pragma unroll
        for (int j = 0; j < 4; ++j) y[2 * j + c] = four[j] * factor;
      }
      if (row >= block.rows()) continue;
      const auto column = static_cast<int32_t>((i * 4 + threadIdx.x % 4) * 8);
      if (rows.pooled != nullptr) {
#pragma unroll
        for (int j = 0; j < 8; j += 4) {
          const float4 add = __ldg(reinterpret_cast<const float4*>(rows.pooled + column + j));
          y[j] = fmaf(add.x, rows.pooled_factor, y[j]);
          y[j + 1] = fmaf(add.y, rows.pooled_factor, y[j + 1]);
          y[j + 2] = fmaf(add.z, rows.pooled_factor, y[j + 2]);
          y[j + 3] = fmaf(add.w, rows.pooled_factor, y[j + 3]);
        }
      }
      uint4 packed{HalfType<T>::pack(y[0], y[1]), HalfType<T>::pack(y[2], y[3]),
                   HalfType<T>::pack(y[4], y[5]), HalfType<T>::pack(y[6], y[7])};
      if (row >= block.len()) packed = uint4{0, 0, 0, 0};  // padding
      *reinterpret_cast<uint4*>(to + column) = packed;
    }
  }
}

}  // namespace vsa::cuda::sm90
