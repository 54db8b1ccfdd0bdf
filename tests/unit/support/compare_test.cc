// The comparator must catch wrong data: everything here but the first tests feeds it faults.
#include "tests/support/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>

#include <cmath>
#include <limits>

#include "tests/support/test_tensor.h"

namespace vsa::test {
namespace {

using ::testing::HasSubstr;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr Dims kDims{.batch = 2, .num_heads = 3, .seq_len = 5, .head_dim = 8};

Tolerance within(double bound) { return {.bound = {bound}, .origin = "the test"}; }

TestTensor sample(Order order = Order::kBshd) {
  return normal_tensor(DType::kF32, kDims, 1, order);
}

/// Applies `spoil` to a copy and returns what the comparator says at a generous tolerance.
template <class Spoil>
testing::AssertionResult after(const Spoil& spoil) {
  TestTensor got = sample();
  spoil(got);
  return close(got.view(), sample().view(), within(1e-2));
}

TEST(Close, AcceptsEqualValuesInAnyOrderAndDtype) {
  for (const Order order : kAllOrders) {
    EXPECT_TRUE(close(sample(order).view(), sample().view(), exact()));
  }
  EXPECT_TRUE(close(sample().as(DType::kF64).view(), sample().view(), exact()));
  EXPECT_TRUE(close(sample().as(DType::kF16).view(), sample().view(), within(1e-2)));
}

TEST(Close, AcceptsEqualInfinities) {
  TestTensor x = sample();
  x.set(0, 0, 0, 0, -kInf);
  EXPECT_TRUE(close(x.view(), x.view(), exact()));
}

TEST(Close, CatchesOneNan) {
  EXPECT_FALSE(after([](TestTensor& x) { x.set(1, 2, 4, 7, std::nan("")); }));
}

TEST(Close, CatchesNanOnBothSides) {
  TestTensor x = sample();
  x.set(0, 0, 0, 0, std::nan(""));
  EXPECT_FALSE(close(x.view(), x.view(), within(kInf)));
}

TEST(Close, CatchesInfinityAndItsSign) {
  EXPECT_FALSE(after([](TestTensor& x) { x.set(0, 0, 0, 0, kInf); }));
  TestTensor plus = sample();
  TestTensor minus = sample();
  plus.set(0, 0, 0, 0, kInf);
  minus.set(0, 0, 0, 0, -kInf);
  EXPECT_FALSE(close(plus.view(), minus.view(), within(1e30)));
}

TEST(Close, CatchesSignFlip) {
  EXPECT_FALSE(after([](TestTensor& x) { x.set(1, 0, 3, 5, -x.at(1, 0, 3, 5)); }));
}

TEST(Close, CatchesShiftedRows) {
  EXPECT_FALSE(after([](TestTensor& x) {
    std::vector<double> values = x.values();
    std::rotate(values.begin(), values.begin() + kDims.head_dim, values.end());
    x.set_values(values);
  }));
}

TEST(Close, CatchesSwappedRows) {
  EXPECT_FALSE(after([](TestTensor& x) {
    for (int64_t d = 0; d < kDims.head_dim; ++d) {
      const double first = x.at(0, 0, 0, d);
      x.set(0, 0, 0, d, x.at(0, 0, 1, d));
      x.set(0, 0, 1, d, first);
    }
  }));
}

TEST(Close, CatchesWrongScale) {
  EXPECT_FALSE(after([](TestTensor& x) { x = x.map([](double v) { return 1.05 * v; }); }));
}

TEST(Close, CatchesUnwrittenElements) {
  EXPECT_FALSE(close(TestTensor(DType::kF32, kDims).view(), sample().view(), within(1e30)));
}

TEST(Close, CatchesOtherShapesEmptyTensorsAndUselessBounds) {
  Dims longer = kDims;
  longer.seq_len += 1;
  EXPECT_FALSE(close(constant_tensor(DType::kF32, longer, 0.0).view(),
                     constant_tensor(DType::kF32, kDims, 0.0).view(), within(1.0)));
  Dims none = kDims;
  none.seq_len = 0;
  const TestTensor nothing(DType::kF32, none);
  EXPECT_FALSE(close(nothing.view(), nothing.view(), within(1.0)));
  EXPECT_FALSE(close(sample().view(), sample().view(), within(std::nan(""))));
  EXPECT_FALSE(close(sample().view(), sample().view(), within(kInf)));
  EXPECT_FALSE(close(sample().view(), sample().view(), {.bound = {0.0, 0.0}, .origin = ""}));
  EXPECT_FALSE(close(sample().view(), sample().view(), {.bound = {}, .origin = ""}));
}

TEST(Close, UsesEachElementsOwnBound) {
  TestTensor got = sample();
  got.set(0, 0, 0, 1, got.at(0, 0, 0, 1) + 0.5);
  std::vector<double> bounds(got.values().size(), 0.0);
  EXPECT_FALSE(close(got.view(), sample().view(), {.bound = bounds, .origin = ""}));
  bounds[1] = 0.6;
  EXPECT_TRUE(close(got.view(), sample().view(), {.bound = bounds, .origin = ""}));
}

TEST(Close, ReportsCountWorstElementAndOrigin) {
  TestTensor got = sample();
  const TestTensor want = constant_tensor(DType::kF32, kDims, 1.0);
  got.set_values(want.values());
  got.set(1, 2, 3, 4, 1.5);
  got.set(0, 0, 0, 0, 1.25);
  const auto result = close(got.view(), want.view(), within(0.125));
  EXPECT_THAT(result.message(),
              HasSubstr("2 of 240 elements of f32 [2,3,5,8] are wrong; worst at [1,2,3,4]: "
                        "expected 1, got 1.5, off by 0.5 > 0.125 (the test)"));
}

TEST(ExpectClose, FailsTheTest) {
  static const TestTensor zero = constant_tensor(DType::kF32, kDims, 0.0);
  static const TestTensor one = constant_tensor(DType::kF32, kDims, 1.0);
  EXPECT_NONFATAL_FAILURE(expect_close(zero.view(), one.view(), exact()), "240 of 240");
}

TEST(SameBits, SeesTheLastBitAndTheSignOfZero) {
  TestTensor x = sample();
  EXPECT_TRUE(same_bits(x.view(), sample(Order::kFused).view()));
  x.set(0, 1, 2, 3, std::nextafter(static_cast<float>(x.at(0, 1, 2, 3)), 9.0F));
  EXPECT_FALSE(same_bits(x.view(), sample().view()));
  EXPECT_FALSE(same_bits(constant_tensor(DType::kF32, kDims, 0.0).view(),
                         constant_tensor(DType::kF32, kDims, -0.0).view()));
  EXPECT_FALSE(same_bits(sample().view(), sample().as(DType::kF64).view()));
}

TEST(SameLut, ComparesRowsWhateverThePitch) {
  LutBuffer a({.num_q_tiles = 2, .pitch = 2});
  LutBuffer b({.num_q_tiles = 2, .pitch = 3});
  a.view().index[0] = b.view().index[0] = 4;
  a.view().count[0] = b.view().count[0] = 1;
  EXPECT_TRUE(same_lut(a.view(), b.view()));
  b.view().index[0] = 5;
  EXPECT_FALSE(same_lut(a.view(), b.view()));
  b.view().index[0] = 4;
  b.view().count[0] = 0;
  EXPECT_FALSE(same_lut(a.view(), b.view()));
}

TEST(RelativeL2, IsTheRatioOfNormsAndKeepsNan) {
  TestTensor got = constant_tensor(DType::kF32, kDims, 1.25);
  const TestTensor want = constant_tensor(DType::kF32, kDims, 1.0);
  EXPECT_DOUBLE_EQ(relative_l2(got.view(), want.view()), 0.25);
  got.set(0, 0, 0, 0, std::nan(""));
  EXPECT_TRUE(std::isnan(relative_l2(got.view(), want.view())));
}

}  // namespace
}  // namespace vsa::test
