// Products of 64 x 64 elements by one CTA on tensor cores, from numbers split as tf32_sum.h says.
// Tensor cores add up all terms: sums of parts beside them would take registers that are not
// there. Device-only.
//
// 128 threads: 2 x 2 warps of 32 x 32 elements. Operands come through three buffers of 16 terms of
// the sum, by asynchronous copies of single floats, so that any stride and alignment will do.
#pragma once

#include <cstdint>

#include "src/cuda/coarse/tf32_sum.h"

namespace vsa::cuda {

/// An operand: 64 rows along m, summed over k; element (m, k) is data[m * m_stride + k * k_stride].
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
  // Rows of one operand's buffer, m outside and k outside: both put the 32 floats that a warp reads
  // at once on different banks.
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

  /// sum += a b^T over k < depth. kAAlongK: k_stride is 1 and the buffer keeps it so; else
  /// m_stride.
  template <bool kAAlongK, bool kBAlongK>
  __device__ __forceinline__ void add(const Operand& a, const Operand& b, int depth) {
    const int steps = (depth + kDepth - 1) / kDepth;
    for (int step = 0; step < kStages - 1; ++step) fetch<kAAlongK, kBAlongK>(a, b, step, depth);
    for (int step = 0; step < steps; ++step) {
      asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2));
      __syncthreads();  // also: all are done with the buffer that is filled next
      fetch<kAAlongK, kBAlongK>(a, b, step + kStages - 1, depth);
      multiply<kAAlongK, kBAlongK>(smem_.a[step % kStages], smem_.b[step % kStages]);
    }
    __syncthreads();  // the next product fills the first buffers again
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

  /// Elements outside become 0: nothing is read at their addresses.
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

  /// Starts the copies of a step, none beyond the end.
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
      uint32_t a_big[2][4];
      uint32_t a_small[2][4];
#pragma unroll
      for (int m = 0; m < 2; ++m) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int row = first_row() + m * 16 + i % 2 * 8 + group();
          split_tf32(a[place<kAAlongK>(row, k + i / 2 * 4 + member())], a_big[m][i], a_small[m][i]);
        }
      }
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const int column = first_column() + n * 8 + group();
        uint32_t b_big[2];
        uint32_t b_small[2];
#pragma unroll
        for (int i = 0; i < 2; ++i)
          split_tf32(b[place<kBAlongK>(column, k + i * 4 + member())], b_big[i], b_small[i]);
#pragma unroll
        for (int m = 0; m < 2; ++m) {
          multiply_tf32(sum_[m][n], a_small[m], b_big);
          multiply_tf32(sum_[m][n], a_big[m], b_small);
          multiply_tf32(sum_[m][n], a_big[m], b_big);
        }
      }
    }
  }

  Smem& smem_;
  float sum_[2][4][4] = {};
};

}  // namespace vsa::cuda
