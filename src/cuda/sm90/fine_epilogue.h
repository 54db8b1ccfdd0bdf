// The end of a query block in the fine kernel: normalise, combine with the coarse branch, store in
// the caller's order. Device-only.
//
// Four neighbouring threads hold 2 columns each of the same rows; they swap them so that each has 8
// in a row, loads 16 bytes of gate and stores 16 bytes of out, and the four together 64 bytes.
#pragma once

#include "src/cuda/sm90/fine_params.h"
#include "src/cuda/sm90/fine_softmax.h"

namespace vsa::cuda::sm90 {

/// Transposes x among 4 neighbours: afterwards x[i] is what neighbour i had in x[own number].
__device__ __forceinline__ void transpose4(float (&x)[4]) {
  const bool odd = (threadIdx.x & 1U) != 0;
  const bool high = (threadIdx.x & 2U) != 0;
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const float got = __shfl_xor_sync(~0U, odd ? x[i] : x[i + 1], 1);
    (odd ? x[i] : x[i + 1]) = got;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float got = __shfl_xor_sync(~0U, high ? x[i] : x[i + 2], 2);
    (high ? x[i] : x[i + 2]) = got;
  }
}

/// One warpgroup's rows of one query block.
template <class T, int kHeadDim>
struct Epilogue {
  static constexpr int kPieces = kHeadDim / 32;  // of 8 columns a thread has in each row

  const FineParams& p;
  Block block;
  int32_t b, h, q_tile;

  uint4 gate[2][kPieces];

  /// Row `half` (0 or 1) of this thread in the block.
  __device__ __forceinline__ int32_t row(int half) const {
    return static_cast<int32_t>(threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4 + half * 8);
  }
  /// First column of piece i.
  __device__ __forceinline__ static int32_t column(int i) {
    return static_cast<int32_t>((i * 4 + threadIdx.x % 4) * 8);
  }
  template <class AnyRows>
  __device__ __forceinline__ int64_t offset(const AnyRows& rows, int64_t position) const {
    return b * rows.batch + h * rows.head + position * rows.seq;
  }

  /// Starts loading the gate, early enough to hide it behind the last products.
  __device__ __forceinline__ void load_gate() {
    if (p.gate.data == nullptr) return;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (row(half) >= block.len()) continue;
      const int64_t from = offset(p.gate, position_of(p.q_plan, block, row(half)));
#pragma unroll
      for (int i = 0; i < kPieces; ++i) {
        gate[half][i] = __ldg(
            reinterpret_cast<const uint4*>(static_cast<const T*>(p.gate.data) + from + column(i)));
      }
    }
  }

  __device__ __forceinline__ void store(float (&out)[kHeadDim / 2], const SoftmaxState& softmax) {
    const float* coarse = nullptr;
    if (p.coarse_out != nullptr) {
      const int32_t num_q_tiles = p.q_plan.num_tiles;
      coarse = p.coarse_out +
               (static_cast<int64_t>(b * p.num_heads + h) * num_q_tiles + q_tile) * kHeadDim;
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = softmax.sum[half];
      const bool valid = row(half) < block.len();
      const float inverse = sum == 0.0F ? 0.0F : p.gate_fine / sum;
      const int64_t position = position_of(p.q_plan, block, row(half));
      const bool stored = row(half) < block.rows();
      if (stored && p.lse.data != nullptr && threadIdx.x % 4 == 0) {
        const float lse = sum == 0.0F ? kMinusInfinity
                                      : (softmax.max[half] * p.scale_log2 + log2_fast(sum)) *
                                            0.693147180559945309F;
        static_cast<float*>(p.lse.data)[offset(p.lse, position)] = valid ? lse : 0.0F;
      }
      T* const to = static_cast<T*>(p.out.data) + offset(p.out, position);
#pragma unroll
      for (int i = 0; i < kPieces; ++i) {
        float x[8];
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          float four[4];
#pragma unroll
          for (int j = 0; j < 4; ++j) four[j] = out[(i * 4 + j) * 4 + half * 2 + c];
          transpose4(four);
#pragma unroll
          for (int j = 0; j < 4; ++j) x[2 * j + c] = four[j] * inverse;
        }
        if (!stored) continue;
        if (coarse != nullptr) add_coarse(x, coarse + column(i), gate[half][i]);
        uint4 packed{HalfType<T>::pack(x[0], x[1]), HalfType<T>::pack(x[2], x[3]),
                     HalfType<T>::pack(x[4], x[5]), HalfType<T>::pack(x[6], x[7])};
        if (!valid) packed = uint4{0, 0, 0, 0};
        *reinterpret_cast<uint4*>(to + column(i)) = packed;
      }
    }
  }

  __device__ __forceinline__ void add_coarse(float (&x)[8], const float* coarse,
                                             const uint4& gates) const {
    const float4 low = __ldg(reinterpret_cast<const float4*>(coarse));
    const float4 high = __ldg(reinterpret_cast<const float4*>(coarse) + 1);
    const float c[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    const uint32_t pairs[4] = {gates.x, gates.y, gates.z, gates.w};
    const bool constant = p.gate.data == nullptr;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float2 g =
          constant ? float2{p.gate_coarse, p.gate_coarse} : HalfType<T>::unpack(pairs[j]);
      x[2 * j] = fmaf(g.x, c[2 * j], x[2 * j]);
      x[2 * j + 1] = fmaf(g.y, c[2 * j + 1], x[2 * j + 1]);
    }
  }
};

}  // namespace vsa::cuda::sm90
