// The epilogue of the forward fine kernel: normalises out, combines it with the coarse branch and
// stores it in the caller's layout. Device-only.
//
//   registers: out, max, sum -> out / sum * gate_fine + gate_coarse * coarse_out -> global memory
//                               max * scale + log(sum)                           -> lse
//
// Of every eight columns of a row, each of the four lanes of a quad holds two adjacent ones
// (fine_softmax.h). The lanes exchange them by shuffles, until each lane has 8 adjacent columns. So
// a lane loads 16 bytes of gate and stores 16 bytes of out at once, and the quad 64 adjacent bytes.
#pragma once

#include <cstring>

#include "src/cuda/fine/sm90/fine_params.h"
#include "src/cuda/fine/sm90/fine_softmax.h"

namespace vsa::cuda::sm90 {

/// Transposes a 4 x 4 matrix over the lanes of a quad: afterwards x[i] of lane j is what x[j] of
/// lane i was.
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

/// Loads 16 bytes. The load is volatile, because the compiler would delay a plain load until its
/// result is used.
template <class Vector>
__device__ __forceinline__ void load_early(const void* from, Vector& to) {
  static_assert(sizeof(Vector) == 16);
  uint32_t word[4];
  asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
               : "l"(from));
  memcpy(&to, word, sizeof(to));
}

/// The epilogue of one query block, whose 64 rows one warpgroup holds.
template <class T, int kHeadDim>
struct Epilogue {
  static constexpr int kPieces = kHeadDim / 32;  // pieces of 8 columns of a thread in each row

  const FineParams& p;
  const int32_t item;

  __device__ __forceinline__ Epilogue(const FineParams& params, int32_t item_idx)
      : p(params), item(item_idx) {}

  /// The row of the block that is row `i` (0 or 1) of this thread.
  __device__ __forceinline__ static int32_t row(int i) {
    return static_cast<int32_t>(thread_idx() / 32 % 4 * 16 + thread_idx() % 32 / 4) + i * 8;
  }
  /// The first column of this thread's piece i.
  __device__ __forceinline__ static int32_t column(int i) {
    return static_cast<int32_t>((i * 4 + threadIdx.x % 4) * 8);
  }
  /// Offset in elements of the token at `position` of this item's head.
  template <class AnyRows>
  __device__ __forceinline__ int64_t offset(const AnyRows& rows, int64_t position) const {
    const int32_t head_idx = item / p.num_pairs;
    return head_idx / p.num_heads * rows.batch + head_idx % p.num_heads * rows.head +
           position * rows.seq;
  }

  /// Prefetches the gate of the block to L2 when the block begins; each thread prefetches one line
  /// of 128 bytes.
  __device__ __forceinline__ void prefetch_gate(const Block& block) const {
    constexpr int kLines = kHeadDim / 64;  // lines of a row
    const auto idx = static_cast<int32_t>(thread_idx() % 128);
    if (p.gate.data == nullptr || idx / kLines >= block.len()) return;
    const T* line = static_cast<const T*>(p.gate.data) +
                    offset(p.gate, position_of(p.q_plan, block, idx / kLines)) + idx % kLines * 64;
    asm volatile("prefetch.global.L2 [%0];" ::"l"(line));
  }

  /// Stores out and lse of the block's tokens, and zeros in padding rows.
  /// @param q_block  number of the block
  __device__ __forceinline__ void store(const Block& block, int32_t q_block,
                                        float (&out)[kHeadDim / 2],
                                        const SoftmaxState& softmax) const {
    const CombineOperands operands = load_combine_operands(block, q_block);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float sum = softmax.sum[r];
      const bool valid = row(r) < block.len();
      const float inverse = sum == 0.0F ? 0.0F : p.gate_fine / sum;
      const int64_t position = position_of(p.q_plan, block, row(r));
      const bool stored = row(r) < block.rows();
      if (stored && p.lse.data != nullptr && threadIdx.x % 4 == 0) {
        const float lse =
            sum == 0.0F ? kMinusInfinity
                        : (softmax.max[r] * p.scale_log2 + log2_fast(sum)) * 0.693147180559945309F;
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
          for (int j = 0; j < 4; ++j) four[j] = out[(i * 4 + j) * 4 + r * 2 + c];
          transpose4(four);
#pragma unroll
          for (int j = 0; j < 4; ++j) x[2 * j + c] = four[j] * inverse;
        }
        if (!stored) continue;
        if (p.coarse_out != nullptr) add_coarse(x, operands.coarse[i], operands.gate[r][i]);
        uint4 packed{HalfType<T>::pack(x[0], x[1]), HalfType<T>::pack(x[2], x[3]),
                     HalfType<T>::pack(x[4], x[5]), HalfType<T>::pack(x[6], x[7])};
        if (!valid) packed = uint4{0, 0, 0, 0};
        *reinterpret_cast<uint4*>(to + column(i)) = packed;
      }
    }
  }

  /// The gate and the coarse output that this thread's pieces are combined with.
  struct CombineOperands {
    uint4 gate[2][kPieces];
    float4 coarse[kPieces][2];  // the same for all rows of a tile
  };

  /// Issues all loads before the first result is used, which overlaps their latencies.
  __device__ __forceinline__ CombineOperands load_combine_operands(const Block& block,
                                                                   int32_t q_block) const {
    CombineOperands operands{};
    if (p.coarse_out == nullptr) return operands;
    const int32_t q_tile = max(q_block, 0) / p.q_plan.blocks_per_tile;
    const float* coarse =
        p.coarse_out + (int64_t{item / p.num_pairs} * p.q_plan.num_tiles + q_tile) * kHeadDim;
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
#pragma unroll
      for (int c = 0; c < 2; ++c) load_early(coarse + column(i) + 4 * c, operands.coarse[i][c]);
    }
    if (p.gate.data == nullptr) return operands;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (row(r) >= block.len()) continue;
      const T* gate =
          static_cast<const T*>(p.gate.data) + offset(p.gate, position_of(p.q_plan, block, row(r)));
#pragma unroll
      for (int i = 0; i < kPieces; ++i) load_early(gate + column(i), operands.gate[r][i]);
    }
    return operands;
  }

  /// x += gate_coarse * coarse_out, for one piece.
  __device__ __forceinline__ void add_coarse(float (&x)[8], const float4 (&coarse)[2],
                                             const uint4& gates) const {
    const float c[8] = {coarse[0].x, coarse[0].y, coarse[0].z, coarse[0].w,
                        coarse[1].x, coarse[1].y, coarse[1].z, coarse[1].w};
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
