// A product of 64 x 64 elements on tensor cores by one CTA, from operands split into high and low
// tf32 parts (tf32_sum.h). Unlike there, tensor cores add up all terms, because no registers are
// left for partial sums. Device-only.
//
//   a, b in global memory -> cp.async, 4 bytes each -> 3 stages of 16 terms in shared memory
//                         -> split into high and low -> mma.sync -> 64 x 64 sums in registers
//
// 128 threads: 2 x 2 warps of 32 x 32 elements; all of them copy and compute. Copies of single
// floats allow any stride and alignment. Shared memory: 3 stages x 2 operands x 64 x 20 floats = 30
// KiB. Each step waits for its copies (cp.async.wait_group) and then for all threads
// (__syncthreads).
#pragma once

#include <cstdint>

#include "src/cuda/coarse/tf32_sum.h"

namespace vsa::cuda {

/// An operand of 64 rows (m), summed over k; element (m, k) is data[m * m_stride + k * k_stride].
/// Rows from `rows` on count as 0.
struct Operand {
  const float* data;
  int64_t m_stride, k_stride;
  int rows;
};

class Tf32Product {
 public:
  static constexpr int kEdge = 64;
  static constexpr int kThreads = 128;

 private:
  static constexpr int kDepth = 16;
  static constexpr int kStages = 3;
  // Pitch of a buffer whose rows are m, or k. Both put the 32 floats that a warp reads together on
  // different banks.
  static constexpr int kPitchOfM = kDepth + 4;
  static constexpr int kPitchOfK = kEdge + 8;
  static constexpr int kBufferFloats = kEdge * kPitchOfM;
  static_assert(kDepth * kPitchOfK <= kBufferFloats);

 public:
  struct Smem {
    float a[kStages][kBufferFloats];
    float b[kStages][kBufferFloats];
  };

  __device__ __forceinline__ explicit Tf32Product(Smem& smem) : smem_(smem) {}

  /// sum += a b^T, summed over k < depth.
  /// @tparam kAAlongK, kBAlongK  whether k is the contiguous axis of the operand, else m is
  template <bool kAAlongK, bool kBAlongK>
  __device__ __forceinline__ void add(const Operand& a, const Operand& b, int depth) {
    const int steps = (depth + kDepth - 1) / kDepth;
    for (int step = 0; step < kStages - 1; ++step) fetch<kAAlongK, kBAlongK>(a, b, step, depth);
    for (int step = 0; step < steps; ++step) {
      asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2));
      __syncthreads();  // also: all threads are done with the stage that is filled next
      fetch<kAAlongK, kBAlongK>(a, b, step + kStages - 1, depth);
      multiply<kAAlongK, kBAlongK>(smem_.a[step % kStages], smem_.b[step % kStages]);
    }
    __syncthreads();  // the next call fills the first stages again
  }

  /// Calls visit(row, column, pair of sums at column and column + 1) for the thread's elements.
  template <class Visit>
  __device__ __forceinline__ void for_each_pair(const Visit& visit) const {
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          visit(first_row() + m * 16 + half * 8 + group(), first_column() + n * 8 + member() * 2,
                float2{sum_[m][n][half * 2], sum_[m][n][half * 2 + 1]});
        }
      }
    }
  }

 private:
  __device__ __forceinline__ static int group() { return static_cast<int>(threadIdx.x % 32) / 4; }
  __device__ __forceinline__ static int member() { return static_cast<int>(threadIdx.x) % 4; }
  __device__ __forceinline__ static int first_row() {
    return static_cast<int>(threadIdx.x) / 64 * 32;
  }
  __device__ __forceinline__ static int first_column() {
    return static_cast<int>(threadIdx.x) / 32 % 2 * 32;
  }

  template <bool kAlongK>
  __device__ __forceinline__ static int place(int m, int k) {
    return kAlongK ? m * kPitchOfM + k : k * kPitchOfK + m;
  }

  /// Starts copying one operand of a step. Elements outside become 0, and their addresses are not
  /// read.
  template <bool kAlongK>
  __device__ __forceinline__ static void copy(float* to, const Operand& from, int k0, int depth) {
    const int thread = static_cast<int>(threadIdx.x);
    const int m0 = kAlongK ? thread / kDepth : thread % kEdge;
    const int k1 = kAlongK ? thread % kDepth : thread / kEdge;
    constexpr int kStep = kAlongK ? kThreads / kDepth : kThreads / kEdge;  // along the other axis
    const float* source = from.data + m0 * from.m_stride + (k0 + k1) * from.k_stride;
    const int64_t source_step = kStep * (kAlongK ? from.m_stride : from.k_stride);
    const auto target =
        static_cast<uint32_t>(__cvta_generic_to_shared(to + place<kAlongK>(m0, k1)));
    constexpr int kTargetStep = kStep * (kAlongK ? kPitchOfM : kPitchOfK) * 4;
    const int left = kAlongK ? from.rows - m0 : depth - k0 - k1;  // on the axis of the steps
    const bool inside = kAlongK ? k0 + k1 < depth : m0 < from.rows;
#pragma unroll
    for (int i = 0; i < kEdge * kDepth / kThreads; ++i) {
      asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(target + i * kTargetStep),
                   "l"(source), "r"(inside && i * kStep < left ? 4 : 0)
                   : "memory");
      source += source_step;
    }
  }

  /// Starts the copies of a step, if there is such a step.
  template <bool kAAlongK, bool kBAlongK>
  __device__ __forceinline__ void fetch(const Operand& a, const Operand& b, int step, int depth) {
    if (step * kDepth < depth) {
      copy<kAAlongK>(smem_.a[step % kStages], a, step * kDepth, depth);
      copy<kBAlongK>(smem_.b[step % kStages], b, step * kDepth, depth);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  }

  template <bool kAAlongK, bool kBAlongK>
  __device__ __forceinline__ void multiply(const float* a, const float* b) {
#pragma unroll
    for (int k = 0; k < kDepth; k += 8) {
      uint32_t a_high[2][4];
      uint32_t a_low[2][4];
#pragma unroll
      for (int m = 0; m < 2; ++m) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int row = first_row() + m * 16 + i % 2 * 8 + group();
          split_tf32(a[place<kAAlongK>(row, k + i / 2 * 4 + member())], a_high[m][i], a_low[m][i]);
        }
      }
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const int column = first_column() + n * 8 + group();
        uint32_t b_high[2];
        uint32_t b_low[2];
#pragma unroll
        for (int i = 0; i < 2; ++i)
          split_tf32(b[place<kBAlongK>(column, k + i * 4 + member())], b_high[i], b_low[i]);
#pragma unroll
        for (int m = 0; m < 2; ++m) {
          multiply_tf32(sum_[m][n], a_low[m], b_high);
          multiply_tf32(sum_[m][n], a_high[m], b_low);
          multiply_tf32(sum_[m][n], a_high[m], b_high);
        }
      }
    }
  }

  Smem& smem_;
  float sum_[2][4][4] = {};
};

}  // namespace vsa::cuda
