// Linear layers against double loops, and their independence of threads and row counts.
#include "runtime/nn/linear.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "runtime/nn/parallel.h"
#include "tests/runtime_support/arrays.h"
#include "tests/runtime_support/weights.h"

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
  Activation activation = Activation::kNone;
  io::StorageType type = io::StorageType::kF32;
  Keep keep = Keep::kPacked;
};

class LinearLayer : public testing::TestWithParam<Case> {};

TEST_P(LinearLayer, EqualsDoubleLoops) {
  const auto& [dims, rows, has_bias, activation, type, keep] = GetParam();
  std::vector<float> weight = test::normal_f32(dims.in * dims.out, 1);
  for (float& w : weight) w = test::rounded_to(w, type);
  const std::vector<float> bias = has_bias ? test::normal_f32(dims.out, 2) : std::vector<float>();
  const std::vector<float> x = test::normal_f32(rows * dims.in, 3);
  std::vector<float> y(static_cast<size_t>(rows * dims.out), std::nanf(""));
  const test::StoredLinear stored(dims, weight, bias, type);
  WeightSpace space;
  Linear(stored.weights(), activation, keep).ready(space).forward(x.data(), rows, y.data());

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

constexpr auto kF16 = io::StorageType::kF16;
constexpr auto kBF16 = io::StorageType::kBF16;
constexpr auto kF64 = io::StorageType::kF64;
constexpr auto kGelu = Activation::kGeluTanh;
INSTANTIATE_TEST_SUITE_P(
    Shapes, LinearLayer,
    testing::Values(Case{{1, 1}, 1, true}, Case{{7, 5}, 3, true}, Case{{32, 48}, 64, false},
                    Case{{256, 640}, 130, true, kGelu},
                    Case{{96, 256}, 65, true, Activation::kSilu}, Case{{24, 33}, 200, false, kGelu},
                    Case{{7, 5}, 3, true, kGelu, kF16}, Case{{7, 5}, 3, true, kGelu, kBF16},
                    Case{{256, 640}, 130, true, Activation::kNone, kBF16},
                    Case{{97, 640}, 65, false, Activation::kNone, kF16},
                    Case{{24, 33}, 9, true, Activation::kNone, kF64}));
INSTANTIATE_TEST_SUITE_P(
    Mapped, LinearLayer,
    testing::Values(
        Case{{96, 256}, 65, true, Activation::kSilu, io::StorageType::kF32, Keep::kMapped},
        Case{{97, 641}, 13, false, kGelu, kBF16, Keep::kMapped},
        Case{{97, 33}, 13, true, kGelu, kF16, Keep::kMapped},
        Case{{24, 33}, 9, true, Activation::kNone, kF64, Keep::kMapped}));

TEST(LinearLayers, AWeightIsTheStoredNumbersTimesTheScale) {
  constexpr LinearDims kDims{40, 24};
  const std::vector<float> weight = test::normal_f32(kDims.in * kDims.out, 1);
  const std::vector<float> x = test::normal_f32(kDims.in, 3);
  for (const io::StorageType type : {io::StorageType::kF32, kF16, kBF16, kF64}) {
    for (const Keep keep : {Keep::kPacked, Keep::kMapped}) {
      const test::StoredLinear stored(kDims, weight, {}, type);
      LinearWeights scaled = stored.weights();
      scaled.weight.scale = 0.5F;
      std::vector<float> whole(kDims.out), half(kDims.out);
      WeightSpace space;
      Linear(stored.weights(), Activation::kNone, keep)
          .ready(space)
          .forward(x.data(), 1, whole.data());
      SCOPED_TRACE(std::string(io::name(type)) + (keep == Keep::kPacked ? " packed" : " mapped"));
      Linear(scaled, Activation::kNone, keep).ready(space).forward(x.data(), 1, half.data());
      for (size_t i = 0; i < half.size(); ++i) EXPECT_EQ(half[i], 0.5F * whole[i]) << i;
    }
  }
}

TEST(LinearLayers, AMappedWeightMayLieAtAnyAddress) {
  constexpr LinearDims kDims{17, 9};
  const std::vector<float> weight = test::normal_f32(kDims.in * kDims.out, 1);
  const std::vector<float> x = test::normal_f32(kDims.in, 3);
  for (const io::StorageType type : {io::StorageType::kF32, kF16, kBF16, kF64}) {
    const test::StoredLinear stored(kDims, weight, {}, type);
    LinearWeights odd = stored.weights();
    std::vector<std::byte> moved(odd.weight.bytes.size() + 1);
    std::ranges::copy(odd.weight.bytes, moved.begin() + 1);
    odd.weight.bytes = std::span(moved).subspan(1);
    std::vector<float> want(kDims.out), got(kDims.out);
    WeightSpace space;
    Linear(stored.weights(), Activation::kNone, Keep::kMapped)
        .ready(space)
        .forward(x.data(), 1, want.data());
    Linear(odd, Activation::kNone, Keep::kMapped).ready(space).forward(x.data(), 1, got.data());
    EXPECT_EQ(got, want);
  }
}

TEST(WeightSpace, KeepsWhatWasTakenUntilClear) {
  WeightSpace space;
  const auto step = [&](const std::vector<int64_t>& sizes) {
    space.clear();
    std::vector<float*> taken;
    for (const int64_t n : sizes) {
      taken.push_back(space.take(n));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(taken.back()) % 64, 0U);
      std::fill_n(taken.back(), n, static_cast<float>(taken.size()));
    }
    for (size_t i = 0; i < taken.size(); ++i) {
      EXPECT_EQ(std::count(taken[i], taken[i] + sizes[i], static_cast<float>(i + 1)), sizes[i]);
    }
    return taken;
  };
  step({100, 50, 7});
  const auto before = step({100, 50, 7});
  EXPECT_EQ(step({100, 50, 7}), before);  // no more memory than before
  step({20, 20, 20, 20, 20});
  step({1000, 30});
  step({});
  step({1, 1024, 5});
}

TEST(LinearLayers, RowsDoNotDependOnTheirNeighboursOrOnThreads) {
  constexpr LinearDims kDims{80, 56};
  constexpr int64_t kRows = 200;
  const std::vector<float> x = test::normal_f32(kRows * kDims.in, 3);
  const test::StoredLinear stored(kDims, test::normal_f32(kDims.in * kDims.out, 1),
                                  test::normal_f32(kDims.out, 2), kBF16);
  const Linear layer(stored.weights(), Activation::kGeluTanh);
  WeightSpace space;
  const ReadyLinear linear = layer.ready(space);
  std::vector<float> together(kRows * kDims.out);
  linear.forward(x.data(), kRows, together.data());
  for (const int threads : {1, 2, 5}) {
    const ThreadCount count(threads);
    WeightSpace other;
    std::vector<float> again(kRows * kDims.out);
    layer.ready(other).forward(x.data(), kRows, again.data());
    EXPECT_EQ(again, together) << threads;
  }
  // A row beside others that are all NaN: the same bits.
  for (const int64_t row : {int64_t{0}, int64_t{70}, kRows - 1}) {
    std::vector<float> spoiled(x.size(), std::nanf(""));
    const auto from = x.begin() + row * kDims.in;
    std::copy(from, from + kDims.in, spoiled.begin() + row * kDims.in);
    std::vector<float> y(kRows * kDims.out);
    linear.forward(spoiled.data(), kRows, y.data());
    const auto at = y.begin() + row * kDims.out;
    EXPECT_TRUE(std::equal(at, at + kDims.out, together.begin() + row * kDims.out)) << row;
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
