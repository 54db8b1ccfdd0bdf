// Norms and elementwise operations against double loops.
#include "runtime/nn/norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "runtime/nn/elementwise.h"
#include "tests/runtime_support/arrays.h"

namespace vsa::nn {
namespace {

constexpr int64_t kRows = 5, kWidth = 83;
constexpr double kEps = 1e-6;

/// x - mean and 1 / sqrt(var + eps) of a row, in f64.
struct Centred {
  std::vector<double> x;
  double rstd = 0.0;
};
Centred centre(const float* row, bool subtract_mean) {
  double mean = 0.0;
  if (subtract_mean) {
    for (int64_t i = 0; i < kWidth; ++i) mean += static_cast<double>(row[i]) / kWidth;
  }
  Centred centred;
  double squares = 0.0;
  for (int64_t i = 0; i < kWidth; ++i) {
    centred.x.push_back(static_cast<double>(row[i]) - mean);
    squares += centred.x.back() * centred.x.back();
  }
  centred.rstd = 1.0 / std::sqrt(squares / kWidth + kEps);
  return centred;
}

TEST(LayerNorm, EqualsDoubleLoopsWithALargeMean) {
  // The mean is 300 deviations: a one-pass variance would lose all its digits.
  std::vector<float> x = test::normal_f32(kRows * kWidth, 1);
  for (float& v : x) v += 300.0F;
  const std::vector<float> scale = test::normal_f32(kWidth, 2);
  const std::vector<float> shift = test::normal_f32(kWidth, 3);
  test::Exact want;
  for (int64_t r = 0; r < kRows; ++r) {
    const Centred row = centre(x.data() + r * kWidth, true);
    for (size_t i = 0; i < kWidth; ++i) {
      const double scaled = row.x[i] * row.rstd * static_cast<double>(scale[i]);
      want.add(scaled + static_cast<double>(shift[i]),
               300.0 * row.rstd * std::abs(static_cast<double>(scale[i])) + std::abs(scaled) +
                   std::abs(static_cast<double>(shift[i])));
    }
  }
  layer_norm({.x = x.data(),
              .rows = kRows,
              .width = kWidth,
              .eps = static_cast<float>(kEps),
              .scale = scale.data(),
              .shift = shift.data(),
              .y = x.data()});          // in place
  test::expect_rounded(x, want, 16.0);  // the mean in f32 is off by a few ulp of 300
}

TEST(RmsNorm, EqualsDoubleLoops) {
  const std::vector<float> x = test::normal_f32(kRows * kWidth, 1);
  const std::vector<float> weight = test::normal_f32(kWidth, 2);
  test::Exact want;
  for (int64_t r = 0; r < kRows; ++r) {
    const Centred row = centre(x.data() + r * kWidth, false);
    for (size_t i = 0; i < kWidth; ++i) {
      const double y = row.x[i] * row.rstd * static_cast<double>(weight[i]);
      want.add(y, std::abs(y));
    }
  }
  std::vector<float> y(x.size());
  rms_norm({.x = x.data(),
            .rows = kRows,
            .width = kWidth,
            .eps = static_cast<float>(kEps),
            .weight = weight.data(),
            .y = y.data()});
  test::expect_rounded(y, want, 16.0);  // half the sum's relative error, and 4 more operations
}

TEST(RmsNorm, EpsIsAddedToTheMeanSquare) {
  const float x = 1e-3F, weight = 1.0F;  // x^2 is as large as eps
  float y = 0.0F;
  rms_norm({.x = &x, .rows = 1, .width = 1, .eps = 1e-6F, .weight = &weight, .y = &y});
  EXPECT_NEAR(y, 1.0 / std::sqrt(2.0), 8 * 0x1p-24);
}

TEST(Elementwise, GatedResidualAddMultiplySilu) {
  const std::vector<float> x = test::normal_f32(kRows * kWidth, 1);
  const std::vector<float> y = test::normal_f32(kRows * kWidth, 2);
  const std::vector<float> gate = test::normal_f32(kWidth, 3);
  test::Exact residual, sum, product, silus;
  for (size_t i = 0; i < x.size(); ++i) {
    const double a = x[i], b = y[i], g = gate[i % kWidth];
    residual.add(a + g * b, std::abs(a) + std::abs(g * b));
    sum.add(a + b, std::abs(a) + std::abs(b));
    product.add(a * b, std::abs(a * b));
    silus.add(a / (1.0 + std::exp(-a)), std::abs(a));
  }
  std::vector<float> got = x;
  gated_residual(
      {.x = got.data(), .y = y.data(), .rows = kRows, .width = kWidth, .gate = gate.data()});
  test::expect_rounded(got, residual, 2.0);
  got = x;
  add(got, y);
  test::expect_rounded(got, sum, 1.0);
  got = x;
  multiply(got, y);
  test::expect_rounded(got, product, 1.0);
  got = x;
  silu(got);
  test::expect_rounded(got, silus, 4.0);
}

TEST(Elementwise, AllFiniteSeesEveryPosition) {
  std::vector<float> x = test::normal_f32(kWidth, 1);
  x[0] = std::numeric_limits<float>::max();
  EXPECT_TRUE(all_finite(x));
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    for (size_t i = 0; i < x.size(); ++i) {
      std::vector<float> spoiled = x;
      spoiled[i] = bad;
      EXPECT_FALSE(all_finite(spoiled)) << i;
    }
  }
  EXPECT_TRUE(all_finite({}));
}

}  // namespace
}  // namespace vsa::nn
