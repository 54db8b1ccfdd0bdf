// Plain arrays for the tests of the runtime's layers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tests/support/compare.h"
#include "tests/support/random.h"

namespace vsa::test {

/// n numbers from N(0, 1) as f32.
inline std::vector<float> normal_f32(int64_t n, uint64_t seed) {
  const std::vector<double> wide = normal(n, seed);
  return {wide.begin(), wide.end()};
}

/// relative_l2 of all numbers.
inline double relative_l2(std::span<const float> got, std::span<const float> want) {
  const auto flat = [](std::span<const float> x) {
    return ConstTensor::bhsd(x.data(), DType::kF32, {.seq_len = 1, .head_dim = std::ssize(x)});
  };
  return relative_l2(flat(got), flat(want));
}

/// A result in f64 with, for each element, the sum of the absolute values that were added: what
/// rounding errors are proportional to.
struct Exact {
  std::vector<double> value;
  std::vector<double> magnitude;
  void add(double v, double m) {
    value.push_back(v);
    magnitude.push_back(m);
  }
};

/// |got - value| <= rounded_operations * 2^-24 * magnitude for every element; NaN fails.
inline void expect_rounded(std::span<const float> got, const Exact& want, double rounded_operations,
                           Caller where = Caller()) {
  Tolerance tolerance{.bound = {},
                      .origin = std::to_string(rounded_operations) + " f32 roundings of the terms"};
  for (const double m : want.magnitude) {
    tolerance.bound.push_back(rounded_operations * 0x1p-24 * m);
  }
  const auto flat = [](int64_t n) { return Dims{.seq_len = 1, .head_dim = n}; };
  expect_close(ConstTensor::bhsd(got.data(), DType::kF32, flat(std::ssize(got))),
               ConstTensor::bhsd(want.value.data(), DType::kF64, flat(std::ssize(want.value))),
               tolerance, where);
}

}  // namespace vsa::test
