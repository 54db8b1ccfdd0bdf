// Matrix products on tensor cores with about the accuracy of fp32, by one warp. Every operand is
// split into two tf32 numbers, x = high + low, and three products are added in fp32: low * high +
// high * low + high * high. Device-only.
//
// Error bound, in units of u = 2^-24 times the sum of the magnitudes of the terms:
//   terms  |low| <= 2^-11 |x| has at most 12 significant bits, of which tensor cores drop one: 2 u
//          for each operand. The low x low product is omitted, which adds an error of 4 u.
//   sums   Tensor cores truncate where fp32 rounds: at most 2 u of the largest of 9 addends and 2 u
//          of the sum, if they keep no extra bits. Therefore only a partial sum of 8 or 16 terms is
//          accumulated on tensor cores, the small products first: 20 u for each 8 terms, relative
//          to the magnitudes of the partial sum and not of all terms before it. The partial sums
//          are added in fp32: u for each.
// With partial sums of 16 terms that is 48 u + n / 16 u, which is below the (n + 2) u of an fp32
// dot product from n = 64 on. Shorter sums stay below it too, except for numbers constructed
// against it.
//
// An operand that is infinite, or rounds to infinity, makes a sum NaN where fp32 would give
// infinity: callers compute results that are not finite again in plain fp32.
#pragma once

#include <cstdint>

namespace vsa::cuda {

/// Splits x into high + low. `high` is x rounded to tf32 by integer arithmetic, because cvt.rna
/// takes four instructions; `low` is not rounded, because tensor cores ignore the bits that tf32
/// lacks.
__device__ __forceinline__ void split_tf32(float x, uint32_t& high, uint32_t& low) {
  high = (__float_as_uint(x) + 0x1000U) & 0xFFFFE000U;
  low = __float_as_uint(x - __uint_as_float(high));
}

/// c += a b with m16n8k8.
__device__ __forceinline__ void multiply_tf32(float (&c)[4], const uint32_t (&a)[4],
                                              const uint32_t (&b)[2]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
      "{%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// The sums of 16 kM rows and 8 kN columns, in the registers of a warp.
template <int kM, int kN>
class Tf32Sum {
  /// Groups of 8 columns that are computed together: more of them overlap more latency and need
  /// more registers.
  static constexpr int kAtOnce = 2;
  static_assert(kN % kAtOnce == 0);

 public:
  // A warp has 8 groups of 4 lanes, as the PTX manual calls them; member() is the lane in its
  // group.
  __device__ __forceinline__ static int group() { return static_cast<int>(threadIdx.x % 32) / 4; }
  __device__ __forceinline__ static int member() { return static_cast<int>(threadIdx.x) % 4; }

  /// Adds 8 kSteps terms to every sum; they are one partial sum on tensor cores. a(m, half, step)
  /// returns this lane's 2 of the 8 terms of row 16 m + 8 half + group(). b(n, step, terms) writes
  /// this lane's 2 of the 8 terms of column 8 (n + i) + group() to terms[i], i < kAtOnce. Which 2
  /// of the 8 a lane has does not matter, as long as a and b agree.
  template <int kSteps, class A, class B>
  __device__ __forceinline__ void add(const A& a, const B& b) {
    uint32_t a_high[kSteps][kM][4];
    uint32_t a_low[kSteps][kM][4];
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int m = 0; m < kM; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const float2 x = a(m, half, step);
          split_tf32(x.x, a_high[step][m][half], a_low[step][m][half]);
          split_tf32(x.y, a_high[step][m][half + 2], a_low[step][m][half + 2]);
        }
      }
    }
#pragma unroll
    for (int n0 = 0; n0 < kN; n0 += kAtOnce) {
      float2 x[kSteps][kAtOnce];
#pragma unroll
      for (int step = 0; step < kSteps; ++step) b(n0, step, x[step]);
#pragma unroll
      for (int n = 0; n < kAtOnce; ++n) {
        uint32_t b_high[kSteps][2];
        uint32_t b_low[kSteps][2];
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
          split_tf32(x[step][n].x, b_high[step][0], b_low[step][0]);
          split_tf32(x[step][n].y, b_high[step][1], b_low[step][1]);
        }
        float part[kM][4] = {};
        multiply(part, a_low, b_high);
        multiply(part, a_high, b_low);
        multiply(part, a_high, b_high);
#pragma unroll
        for (int m = 0; m < kM; ++m) {
#pragma unroll
          for (int i = 0; i < 4; ++i) sum_[m][n0 + n][i] += part[m][i];
        }
      }
    }
  }

  /// The sum of row 16 m + 8 half + group() and column 8 n + 2 member() + odd.
  __device__ __forceinline__ float get(int m, int half, int n, int odd) const {
    return sum_[m][n][half * 2 + odd];
  }

 private:
  template <int kSteps>
  __device__ __forceinline__ static void multiply(float (&part)[kM][4],
                                                  const uint32_t (&a)[kSteps][kM][4],
                                                  const uint32_t (&b)[kSteps][2]) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int m = 0; m < kM; ++m) multiply_tf32(part[m], a[step][m], b[step]);
    }
  }

  float sum_[kM][kN][4] = {};
};

}  // namespace vsa::cuda
