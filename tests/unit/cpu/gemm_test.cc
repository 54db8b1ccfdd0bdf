// The matrix product, every edge of its blocks: by VSA_ISA, else on the best target.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "src/cpu/support/float_buffer.h"
#include "src/cpu/support/pack.h"
#include "src/cpu/support/targets.h"
#include "tests/support/random.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/unit/cpu/gemm_test.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "src/cpu/support/gemm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vsa::cpu::HWY_NAMESPACE {

/// c (ld columns a row) = or += a b, b packed or (row_stride > 0) as plain rows.
void Multiply(const float* a, int64_t row_stride, int64_t k_stride, int64_t m, const float* b,
              int64_t b_row_stride, int64_t k, int64_t n, float* c, int64_t ld, bool add) {
  Gemm({.data = a, .row_stride = row_stride, .k_stride = k_stride}, m,
       {.data = b, .k = k, .cols = RoundUpLanes(n), .row_stride = b_row_stride}, c, ld,
       add ? Store::kAdd : Store::kOverwrite);
}

}  // namespace vsa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vsa::cpu {
HWY_EXPORT(Multiply);

namespace {

std::vector<float> normal_floats(int64_t n, uint64_t seed) {
  const std::vector<double> x = test::normal(n, seed);
  return {x.begin(), x.end()};
}

struct Product {
  int64_t m, n, k;
  bool a_transposed, b_packed, add;
};

/// Compares with fp64 within the worst case of k fp32 additions.
void expect_right(const Product& p) {
  SCOPED_TRACE(testing::Message() << p.m << " x " << p.n << " x " << p.k << " a_transposed "
                                  << p.a_transposed << " b_packed " << p.b_packed << " add "
                                  << p.add);
  const int64_t ld = round_up_lanes(p.n);
  const std::vector<float> a = normal_floats(p.m * p.k, 1);
  const std::vector<float> b_rows = normal_floats(p.k * ld, 2);  // [k, ld]
  std::vector<float> b(static_cast<size_t>(p.k * ld), std::nanf(""));
  if (p.b_packed) {
    pack_rows(b_rows.data(), ld, p.k, p.n, b.data());
  } else {
    b = b_rows;
  }
  const std::vector<float> before = normal_floats(p.m * ld, 3);
  std::vector<float> c = before;
  VSA_CPU_DISPATCH(Multiply)
  (a.data(), p.a_transposed ? 1 : p.k, p.a_transposed ? p.m : 1, p.m, b.data(), p.b_packed ? 0 : ld,
   p.k, p.n, c.data(), ld, p.add);

  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t j = 0; j < p.n; ++j) {
      const auto at = static_cast<size_t>(i * ld + j);
      double want = p.add ? static_cast<double>(before[at]) : 0.0;
      double magnitude = std::abs(want);
      for (int64_t l = 0; l < p.k; ++l) {
        const auto a_at = static_cast<size_t>(p.a_transposed ? l * p.m + i : i * p.k + l);
        const double term = static_cast<double>(a[a_at]) *
                            static_cast<double>(b_rows[static_cast<size_t>(l * ld + j)]);
        want += term;
        magnitude += std::abs(term);
      }
      const double bound = magnitude * static_cast<double>(p.k + 2) * 0x1p-24;
      ASSERT_NEAR(static_cast<double>(c[at]), want, bound) << "at " << i << ", " << j;
    }
  }
}

TEST(Gemm, RightForEveryRemainderOfItsBlocks) {
  for (int64_t m = 1; m <= 13; ++m) {
    for (const int64_t n : {1, 8, 16, 17, 24, 40, 56, 64, 65, 72, 128, 136}) {
      expect_right({.m = m, .n = n, .k = 9, .a_transposed = false, .b_packed = true, .add = false});
    }
  }
}

TEST(Gemm, RightForEveryKindOfOperand) {
  for (const bool a_transposed : {false, true}) {
    for (const bool b_packed : {false, true}) {
      for (const bool add : {false, true}) {
        for (const int64_t k : {1, 64, 256}) {
          expect_right({.m = 11,
                        .n = 72,
                        .k = k,
                        .a_transposed = a_transposed,
                        .b_packed = b_packed,
                        .add = add});
        }
      }
    }
  }
}

TEST(Gemm, NothingToAddGivesZero) {
  float c[kMaxLanes] = {1.0F};
  const float unused = std::numeric_limits<float>::quiet_NaN();
  VSA_CPU_DISPATCH(Multiply)(&unused, 0, 1, 1, &unused, 0, 0, 1, c, kMaxLanes, false);
  EXPECT_EQ(c[0], 0.0F);
}

TEST(PackTransposed, TurnsRowsIntoColumnsAndPadsWithZeros) {
  for (const int64_t count : {1, 5, 16, 33, 64, 70, 256}) {
    constexpr int64_t kHeadDim = 24;
    const int64_t ld = round_up_lanes(kHeadDim);
    const std::vector<float> rows = normal_floats(count * ld, 4);
    std::vector<float> packed(static_cast<size_t>(kHeadDim * round_up_lanes(count)), std::nanf(""));
    pack_transposed(rows.data(), ld, count, kHeadDim, packed.data());
    // The identity times the packed matrix reads it back.
    std::vector<float> identity(kHeadDim * kHeadDim, 0.0F);
    for (size_t i = 0; i < kHeadDim; ++i) identity[i * kHeadDim + i] = 1.0F;
    const int64_t cols = round_up_lanes(count);
    std::vector<float> c(static_cast<size_t>(kHeadDim * cols), 0.0F);
    VSA_CPU_DISPATCH(Multiply)
    (identity.data(), kHeadDim, 1, kHeadDim, packed.data(), 0, kHeadDim, count, c.data(), cols,
     false);
    for (int64_t i = 0; i < cols; ++i) {
      for (int64_t d = 0; d < kHeadDim; ++d) {
        const float want = i < count ? rows[static_cast<size_t>(i * ld + d)] : 0.0F;
        ASSERT_EQ(c[static_cast<size_t>(d * cols + i)], want) << count << ": " << i << ", " << d;
      }
    }
  }
}

}  // namespace
}  // namespace vsa::cpu
#endif
