// Noise: the bits of a seed, and that they are normal.
#include "runtime/sampler/noise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numbers>
#include <vector>

#include "runtime/io/sha256.h"

namespace vsa::sampler {
namespace {

TEST(Philox, KnownAnswers) {
  // From the known-answer file of Random123.
  using Words = std::array<uint32_t, 4>;
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Noise, R24_TheBytesOfASeedNeverChange) {
  std::vector<float> x(100000);
  normal(42, 0, 0, x);
  // Also what the formula of noise.h gives in Python, whose floats are f64.
  EXPECT_EQ(io::sha256(std::as_bytes(std::span(x))),
            "851c2cbc8983d5f6f80c6a76aa4ab3fbca2e09577577d7968e20711a8183b733");
}

TEST(Noise, FollowsTheDocumentedFormula) {
  // The library's logarithm, cosine and sine: the same to f64 rounding, before it becomes f32.
  std::vector<float> x(2000);
  normal(5, 9, 0, x);
  for (uint32_t pair = 0; pair < 1000; ++pair) {
    const auto w = philox4x32({pair, 0, 9, 0}, {5, 0});
    const double u1 = static_cast<double>((uint64_t{w[1]} << 32 | w[0]) >> 11) * 0x1p-53 + 0x1p-54;
    const double turn =
        2.0 * std::numbers::pi * static_cast<double>((uint64_t{w[3]} << 32 | w[2]) >> 11) * 0x1p-53;
    const double r = std::sqrt(-2.0 * std::log(u1));
    EXPECT_NEAR(x[2 * pair], r * std::cos(turn), r * 0x1p-24) << pair;
    EXPECT_NEAR(x[2 * pair + 1], r * std::sin(turn), r * 0x1p-24) << pair;
  }
}

TEST(Noise, AnElementDependsOnItsIndexAlone) {
  std::vector<float> whole(1001), part(500);
  normal(3, 4, 0, whole);
  for (const uint64_t first : {0U, 1U, 2U, 501U}) {
    normal(3, 4, first, part);
    EXPECT_EQ(std::memcmp(part.data(), whole.data() + first, 500 * sizeof(float)), 0) << first;
  }
}

TEST(Noise, SeedsAndStreamsDiffer) {
  std::vector<float> a(64), b(64), c(64), d(64);
  normal(1, 0, 0, a);
  normal(2, 0, 0, b);
  normal(1, 1, 0, c);
  normal(uint64_t{1} << 32 | 1, 0, 0, d);
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_NE(a[i], b[i]);
    EXPECT_NE(a[i], c[i]);
    EXPECT_NE(a[i], d[i]);
  }
}

TEST(Noise, HasTheMomentsOfANormalDistribution) {
  constexpr int64_t kCount = 1 << 20;
  std::vector<float> x(kCount);
  normal(1, 0, 0, x);
  double m1 = 0, m2 = 0, m3 = 0, m4 = 0, lag1 = 0, pairs = 0;
  for (size_t i = 0; i < kCount; ++i) {
    const double z = x[i];
    m1 += z, m2 += z * z, m3 += z * z * z, m4 += z * z * z * z;
    if (i + 1 < kCount) lag1 += z * x[i + 1];
    if (i % 2 == 0) pairs += z * z * x[i + 1] * x[i + 1];
  }
  // Five standard errors: the variance of z^n is (2n-1)!! minus the square of its mean.
  const double n = kCount, five = 5.0 / std::sqrt(n);
  EXPECT_NEAR(m1 / n, 0.0, five);
  EXPECT_NEAR(m2 / n, 1.0, five * std::sqrt(2.0));
  EXPECT_NEAR(m3 / n, 0.0, five * std::sqrt(15.0));
  EXPECT_NEAR(m4 / n, 3.0, five * std::sqrt(96.0));
  EXPECT_NEAR(lag1 / n, 0.0, five);
  EXPECT_NEAR(pairs / (n / 2), 1.0, five * std::sqrt(2.0) * std::sqrt(8.0));  // var z^2 w^2 = 8
}

}  // namespace
}  // namespace vsa::sampler
