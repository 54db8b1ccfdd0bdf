// Linear layers against double loops, and their independence of threads and row counts.
#include "runtime/nn/linear.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "runtime/nn/parallel.h"
#include "tests/runtime_support/arrays.h"

namespace vsa::nn {
namespace {

double gelu_tanh(double x) {
  return 0.5 * x *
         (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

struct Case {
  LinearDims dims;
  int64_t rows;
  bool bias;
  Activation activation;
};

class LinearLayer : public testing::TestWithParam<Case> {};

TEST_P(LinearLayer, EqualsDoubleLoops) {
  const auto& [dims, rows, has_bias, activation] = GetParam();
  const std::vector<float> weight = test::normal_f32(dims.in * dims.out, 1);
  const std::vector<float> bias = has_bias ? test::normal_f32(dims.out, 2) : std::vector<float>();
  const std::vector<float> x = test::normal_f32(rows * dims.in, 3);
  std::vector<float> y(static_cast<size_t>(rows * dims.out), std::nanf(""));
  Linear(dims, weight, bias, activation).forward(x.data(), rows, y.data());

  test::Exact want;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t o = 0; o < dims.out; ++o) {
      double sum = has_bias ? bias[static_cast<size_t>(o)] : 0.0;
      double magnitude = std::abs(sum);
      for (int64_t i = 0; i < dims.in; ++i) {
        const double term = static_cast<double>(x[static_cast<size_t>(r * dims.in + i)]) *
                            static_cast<double>(weight[static_cast<size_t>(o * dims.in + i)]);
        sum += term;
        magnitude += std::abs(term);
      }
      if (activation == Activation::kGeluTanh) sum = gelu_tanh(sum);
      if (activation == Activation::kSilu) sum = sum / (1.0 + std::exp(-sum));
      want.add(sum, magnitude);
    }
  }
  // A sum of n terms in any order is within n roundings of its magnitude; both activations have a
  // slope below 1.13, and their approximations are within 32 ulp.
  test::expect_rounded(y, want, 1.2 * static_cast<double>(dims.in) + 32.0);
}

INSTANTIATE_TEST_SUITE_P(Shapes, LinearLayer,
                         testing::Values(Case{{1, 1}, 1, true, Activation::kNone},
                                         Case{{7, 5}, 3, true, Activation::kNone},
                                         Case{{32, 48}, 64, false, Activation::kNone},
                                         Case{{256, 640}, 130, true, Activation::kGeluTanh},
                                         Case{{96, 256}, 65, true, Activation::kSilu},
                                         Case{{24, 33}, 200, false, Activation::kGeluTanh}));

TEST(LinearLayers, RowsDoNotDependOnTheirNeighboursOrOnThreads) {
  constexpr LinearDims kDims{80, 56};
  constexpr int64_t kRows = 200;
  const std::vector<float> x = test::normal_f32(kRows * kDims.in, 3);
  const Linear linear(kDims, test::normal_f32(kDims.in * kDims.out, 1),
                      test::normal_f32(kDims.out, 2), Activation::kGeluTanh);
  std::vector<float> together(kRows * kDims.out);
  linear.forward(x.data(), kRows, together.data());
  for (const int threads : {1, 2, 5}) {
    const ThreadCount count(threads);
    std::vector<float> again(kRows * kDims.out);
    linear.forward(x.data(), kRows, again.data());
    EXPECT_EQ(again, together) << threads;
  }
  std::vector<float> alone(kDims.out);
  for (int64_t r = 0; r < kRows; ++r) {
    linear.forward(x.data() + r * kDims.in, 1, alone.data());
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), together.begin() + r * kDims.out)) << r;
  }
}

TEST(ParallelRows, CoversEveryRowOnceAndPassesExceptionsOn) {
  for (const int64_t rows : {0, 1, 63, 64, 65, 1000}) {
    std::vector<int> seen(static_cast<size_t>(rows));
    parallel_rows(rows, [&](const RowBlock& block) {
      EXPECT_LE(block.size(), kRowBlock);
      EXPECT_LT(block.thread, num_threads());
      for (int64_t r = block.begin; r < block.end; ++r) ++seen[static_cast<size_t>(r)];
    });
    EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), rows);
  }
  EXPECT_THROW(parallel_rows(1000, [](const RowBlock&) { throw std::bad_alloc(); }),
               std::bad_alloc);
}

}  // namespace
}  // namespace vsa::nn
