// Elements of every dtype: exact loads, one rounding on stores.
#include "src/core/element.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/random.h"

namespace vsa {
namespace {

TEST(HalfFromDouble, RoundsOnceToNearestEven) {
  // 1 + 2^-8 is half way between two bf16; the excess of 2^-40 is lost in float, so rounding twice
  // would see the tie and go down to 1.
  EXPECT_EQ(static_cast<float>(half_from_double<BF16>(1.0 + 0x1p-8 + 0x1p-40)), 1.0F + 0x1p-7F);
  EXPECT_EQ(static_cast<float>(half_from_double<BF16>(1.0 + 0x1p-8)), 1.0F);
  EXPECT_EQ(static_cast<float>(half_from_double<BF16>(1.0 + 3 * 0x1p-8)), 1.0F + 2 * 0x1p-7F);
  EXPECT_EQ(static_cast<float>(half_from_double<BF16>(-1.0 - 0x1p-8 - 0x1p-40)), -1.0F - 0x1p-7F);
  EXPECT_EQ(static_cast<float>(half_from_double<BF16>(1.0 + 3 * 0x1p-8 - 0x1p-40)), 1.0F + 0x1p-7F);
}

TEST(HalfFromDouble, NearestOfAllNeighbours) {
  for (const double x : test::normal(1000, 3)) {
    const double rounded = static_cast<double>(static_cast<float>(half_from_double<BF16>(x)));
    EXPECT_LE(std::abs(rounded - x), 0x1p-9 * std::exp2(std::ceil(std::log2(std::abs(x)))));
  }
}

TEST(HalfFromDouble, KeepsSpecialValues) {
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(std::isnan(static_cast<float>(half_from_double<BF16>(std::nan("")))));
  EXPECT_EQ(static_cast<float>(half_from_double<BF16>(-inf)), -inf);
  EXPECT_EQ(static_cast<float>(half_from_double<BF16>(1e300)), inf);
  EXPECT_TRUE(std::signbit(static_cast<float>(half_from_double<BF16>(-0.0))));
}

TEST(Element, RoundTripsWhatTheDtypeCanHold) {
  alignas(8) std::byte memory[16] = {};
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16}) {
    for (const double x : {0.0, -1.5, 0.078125, 240.0}) {
      store_element(memory, dtype, 1, x);
      EXPECT_EQ(load_element(memory, dtype, 1), x) << name(dtype);
      EXPECT_EQ(load_element(memory, dtype, 0), 0.0) << name(dtype) << ": the neighbour";
    }
  }
}

TEST(Element, F16RoundsOnce) {
  // As for bf16: half way plus an excess that float cannot hold.
  uint16_t memory = 0;
  store_element(&memory, DType::kF16, 0, 1.0 + 0x1p-11 + 0x1p-40);
  EXPECT_EQ(load_element(&memory, DType::kF16, 0), 1.0 + 0x1p-10);
}

}  // namespace
}  // namespace vsa
