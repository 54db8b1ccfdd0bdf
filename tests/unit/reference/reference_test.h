// What the tests of the reference share.
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/central_difference.h"
#include "tests/support/problem.h"

namespace vsa::test {

inline constexpr Context kReference{.backend = BackendId::kReference};

/// A single head of rows whose elements are all the given numbers, one row each, in f64.
inline TestTensor rows_of(const std::vector<double>& rows, int64_t head_dim = 8) {
  TestTensor x(DType::kF64, {.seq_len = static_cast<int64_t>(rows.size()), .head_dim = head_dim});
  for (size_t s = 0; s < rows.size(); ++s) x.set_row(0, 0, static_cast<int64_t>(s), rows[s]);
  return x;
}

/// The first number of every row of the only head.
inline std::vector<double> column(const TestTensor& x) {
  std::vector<double> first;
  for (int64_t s = 0; s < x.dims().seq_len; ++s) first.push_back(x.at(0, 0, s, 0));
  return first;
}

/// 3x3 tokens cut into 2x2 tiles: {0,1,3,4} {2,5} {6,7} {8}.
inline TilePlan small_plan() { return TilePlan::grid({1, 3, 3}, {1, 2, 2}).value(); }

/// The analytic gradient of `loss` with respect to x must equal the numeric one.
inline void expect_gradient(const TestTensor& analytic, TestTensor& x,
                            const std::function<double()>& loss) {
  const TestTensor numeric = numeric_gradient(x, loss);
  expect_close(analytic, numeric, difference_tolerance(numeric));
}

}  // namespace vsa::test
