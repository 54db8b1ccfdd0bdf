// Sums of products in fp32 on tensor cores, by one warp. Every factor is split into two numbers of
// tf32, x = big + small, and small big + big small + big big is added up in fp32. Device-only.
//
// The error is at most that of about 48 fp32 FMA, u = 2^-24 of the sum of magnitudes each:
//   terms  |small| <= 2^-11 |x| has at most 12 bits, of which tensor cores drop one: 2 u for each
//          factor; small small is left out: 4 u
//   sums   tensor cores cut where fp32 rounds: at most 2 u of the largest of 9 addends and of the
//          sum, each, if they keep no bits for it. So a part of 8 or 16 terms is summed there
//          alone, from the small products on: 20 u for each 8 terms of the part, but of the part's
//          magnitudes, not of all that came before. fp32 adds the parts: u for each.
// With parts of 16 that is 48 u + n / 16 u, below the (n + 2) u of a dot product for n = 64
// already. Shorter sums stay below it on any but constructed numbers.
//
// An infinity, or a number that rounds to one, makes a sum NaN where FMA would not: callers make
// again what is not finite.
#pragma once

#include <cstdint>

namespace vsa::cuda {

/// `big` is rounded, by integer arithmetic, as cvt.rna takes four instructions; of `small` tensor
/// cores ignore the bits that tf32 lacks.
__device__ __forceinline__ void split_tf32(float x, uint32_t& big, uint32_t& small) {
  big = (__float_as_uint(x) + 0x1000U) & 0xFFFFE000U;
  small = __float_as_uint(x - __uint_as_float(big));
}

/// c += a b of 16 x 8 elements and 8 terms.
__device__ __forceinline__ void multiply_tf32(float (&c)[4], const uint32_t (&a)[4],
                                              const uint32_t (&b)[2]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
      "{%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// 16 kM rows and 8 kN columns of sums.
template <int kM, int kN>
class Tf32Sum {
  /// Pieces of 8 columns in the making at a time: more wait for one another less and take more
  /// registers.
  static constexpr int kAtOnce = 2;
  static_assert(kN % kAtOnce == 0);

 public:
  // A lane is one of 8 of a group and one of its 4 members.
  __device__ __forceinline__ static int group() { return static_cast<int>(threadIdx.x % 32) / 4; }
  __device__ __forceinline__ static int member() { return static_cast<int>(threadIdx.x) % 4; }

  /// Adds 8 kSteps products to every sum. a(m, half, step) gives the member's 2 of 8 terms of row
  /// 16 m + 8 half + group; b(n, step, terms) those of columns 8 n + group, of kAtOnce n. Which 2
  /// of the 8 a member has does not matter, as long as a and b agree.
  template <int kSteps, class A, class B>
  __device__ __forceinline__ void add(const A& a, const B& b) {
    uint32_t a_big[kSteps][kM][4];
    uint32_t a_small[kSteps][kM][4];
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int m = 0; m < kM; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const float2 x = a(m, half, step);
          split_tf32(x.x, a_big[step][m][half], a_small[step][m][half]);
          split_tf32(x.y, a_big[step][m][half + 2], a_small[step][m][half + 2]);
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
        uint32_t b_big[kSteps][2];
        uint32_t b_small[kSteps][2];
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
          split_tf32(x[step][n].x, b_big[step][0], b_small[step][0]);
          split_tf32(x[step][n].y, b_big[step][1], b_small[step][1]);
        }
        float part[kM][4] = {};
        multiply(part, a_small, b_big);
        multiply(part, a_big, b_small);
        multiply(part, a_big, b_big);
#pragma unroll
        for (int m = 0; m < kM; ++m) {
#pragma unroll
          for (int i = 0; i < 4; ++i) sum_[m][n0 + n][i] += part[m][i];
        }
      }
    }
  }

  /// The sum of row 16 m + 8 half + group and column 8 n + 2 member + odd.
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
