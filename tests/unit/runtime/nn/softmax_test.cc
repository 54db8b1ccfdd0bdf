// The softmax of rows, against sums in f64.
#include "runtime/nn/softmax.h"

#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <vector>

#include "tests/runtime_support/arrays.h"

namespace vsa::nn {
namespace {

TEST(SoftmaxRows, EqualsSumsInF64) {
  constexpr int64_t kRows = 3, kWidth = 37;
  constexpr float kScale = 0.25F;
  std::vector<float> x = test::normal_f32(kRows * kWidth, 3);
  for (float& v : x) v *= 40.0F;
  test::Exact want;
  for (size_t r = 0; r < kRows; ++r) {
    const auto row = std::span(x).subspan(r * kWidth, kWidth);
    double sum = 0.0;
    for (const float v : row) sum += std::exp(static_cast<double>(kScale * v));
    // Scores of up to 40 are rounded before the exponential.
    for (const float v : row) {
      const double p = std::exp(static_cast<double>(kScale * v)) / sum;
      want.add(p, p * (1.0 + 2.0 * 40.0));
    }
  }
  softmax_rows(x.data(), kRows, kWidth, kScale);
  test::expect_rounded(x, want, 8.0);
}

TEST(SoftmaxRows, NanSpreadsOverItsRow) {
  std::vector<float> x = test::normal_f32(2 * 21, 3);
  x[30] = std::nanf("");
  softmax_rows(x.data(), 2, 21, 1.0F);
  for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(std::isnan(x[i]), i >= 21) << i;
}

}  // namespace
}  // namespace vsa::nn
