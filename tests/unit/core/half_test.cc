// include/vsa/half.h against the definition: nearest, ties to even.
#include "vsa/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "src/core/element.h"

namespace vsa {
namespace {

/// The value of a binary16 by its fields.
double value_of(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const double fraction = bits & 1023;
  const double magnitude = exponent == 0    ? std::ldexp(fraction, -24)
                           : exponent == 31 ? (fraction == 0 ? HUGE_VAL : std::nan(""))
                                            : std::ldexp(1024 + fraction, exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

TEST(Half, EveryF16IsExactAndComesBack) {
  for (uint32_t i = 0; i < 65536; ++i) {
    const F16 half = F16::from_bits(static_cast<uint16_t>(i));
    const auto x = static_cast<float>(half);
    if (std::isnan(value_of(half.bits))) {
      EXPECT_TRUE(std::isnan(x) && std::isnan(static_cast<float>(F16(x)))) << i;
      continue;
    }
    ASSERT_EQ(static_cast<double>(x), value_of(half.bits)) << i;
    ASSERT_EQ(F16(x).bits, half.bits);
    ASSERT_EQ(half_from_double<F16>(value_of(half.bits)).bits, half.bits);
  }
}

/// Between two neighbours the nearer one, in the middle the even one; from double in one rounding.
TEST(Half, F16RoundsToNearestEven) {
  for (uint32_t i = 0; i < 0x7BFF; ++i) {
    const double low = value_of(static_cast<uint16_t>(i));
    const double high = value_of(static_cast<uint16_t>(i + 1));
    const auto middle = static_cast<float>((low + high) / 2);  // exact
    const auto even = static_cast<uint16_t>(i % 2 == 0 ? i : i + 1);
    ASSERT_EQ(F16(middle).bits, even);
    ASSERT_EQ(F16(-middle).bits, even | 0x8000);
    ASSERT_EQ(F16(std::nextafter(middle, 0.0F)).bits, i);
    ASSERT_EQ(F16(std::nextafter(middle, 1e9F)).bits, i + 1);
    const auto exact = static_cast<double>(middle);
    ASSERT_EQ(half_from_double<F16>(exact * (1 - 0x1p-45)).bits, i);
    ASSERT_EQ(half_from_double<F16>(exact * (1 + 0x1p-45)).bits, i + 1);
  }
}

TEST(Half, F16BeyondTheRange) {
  EXPECT_EQ(F16(65519.99F).bits, 0x7BFF);
  EXPECT_EQ(F16(65520.0F).bits, 0x7C00);
  EXPECT_EQ(F16(-1e30F).bits, 0xFC00);
  EXPECT_EQ(F16(0x1p-25F).bits, 0);
  EXPECT_EQ(F16(std::nextafter(0x1p-25F, 1.0F)).bits, 1);
  EXPECT_EQ(F16(1e-45F).bits, 0);
  EXPECT_EQ(F16(-0.0F).bits, 0x8000);
  EXPECT_EQ(half_from_double<F16>(1e-300).bits, 0);
  EXPECT_EQ(half_from_double<F16>(1e300).bits, 0x7C00);
}

}  // namespace
}  // namespace vsa
