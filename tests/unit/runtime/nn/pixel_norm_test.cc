// The norm over a pixel's channels, against sums in f64.
#include "runtime/nn/pixel_norm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/runtime_support/arrays.h"

namespace vsa::nn {
namespace {

/// norm(x) of one pixel, in f64.
std::vector<double> normalised(std::span<const float> x, std::span<const float> gamma) {
  double squares = 0.0;
  for (const float v : x) squares += static_cast<double>(v) * static_cast<double>(v);
  const double scale =
      std::sqrt(static_cast<double>(x.size())) / std::max(std::sqrt(squares), 1e-12);
  std::vector<double> y;
  for (size_t i = 0; i < x.size(); ++i) {
    y.push_back(static_cast<double>(x[i]) * scale * static_cast<double>(gamma[i]));
  }
  return y;
}

class PixelNorm : public testing::TestWithParam<int64_t> {};

TEST_P(PixelNorm, EqualsSumsInF64) {
  const int64_t channels = GetParam();
  constexpr int64_t kPixels = 5;
  std::vector<float> x = test::normal_f32(kPixels * channels, 1);
  std::fill_n(x.begin(), channels, 0.0F);  // a pixel of zeros
  for (int64_t i = 0; i < channels; ++i)
    x[static_cast<size_t>(channels + i)] *= 1e-15F;  // below 1e-12
  const std::vector<float> gamma = test::normal_f32(channels, 2);
  const auto size = static_cast<size_t>(channels);
  test::Exact norm;
  test::Exact silu;
  for (size_t p = 0; p < kPixels; ++p) {
    for (const double v : normalised(std::span(x).subspan(p * size, size), gamma)) {
      norm.add(v, std::abs(v));
      silu.add(v / (1.0 + std::exp(-v)), std::abs(v));
    }
  }
  const PixelNormArgs args{
      .x = x.data(), .pixels = kPixels, .channels = channels, .gamma = gamma.data(), .y = nullptr};
  std::vector<float> y(x.size(), std::nanf(""));
  PixelNormArgs into = args;
  into.y = y.data();
  pixel_norm(into);
  // A sum of n squares, its root, a quotient, two products: each of relative error 2^-24. The sum
  // of positive numbers loses at most n / 2 roundings under the root.
  const double roundings = static_cast<double>(channels) / 2.0 + 6.0;
  test::expect_rounded(y, norm, roundings);
  pixel_norm_silu(into);
  // silu' <= 1.1; exp, a sum and a quotient.
  test::expect_rounded(y, silu, 1.1 * roundings + 4.0);
  into.y = x.data();  // in place
  pixel_norm_silu(into);
  EXPECT_EQ(x, y);
}
INSTANTIATE_TEST_SUITE_P(Channels, PixelNorm, testing::Values(1, 3, 16, 96, 384, 385));

TEST(PixelNormValues, NanStaysInItsPixel) {
  std::vector<float> x = test::normal_f32(3 * 20, 1);
  x[25] = std::nanf("");
  const std::vector<float> gamma(20, 1.0F);
  pixel_norm_silu(
      {.x = x.data(), .pixels = 3, .channels = 20, .gamma = gamma.data(), .y = x.data()});
  for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(std::isnan(x[i]), i / 20 == 1) << i;
}

TEST(PixelNormValues, SiluOfFarNegativeNumbersIsZero) {
  std::vector<float> x{-1.0F, 0.0F};
  const std::vector<float> gamma{1e4F, 1.0F};
  pixel_norm_silu(
      {.x = x.data(), .pixels = 1, .channels = 2, .gamma = gamma.data(), .y = x.data()});
  EXPECT_NEAR(x[0], 0.0F, 1e-30F);
}

}  // namespace
}  // namespace vsa::nn
