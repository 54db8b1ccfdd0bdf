// What linear must give, for any backend.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "tests/support/run.h"
#include "vsa/linear.h"

namespace vsa::test {

/// Sizes and dtypes of a product.
struct LinearCase {
  int64_t m, n, k;
  DType dtype, out_dtype;
  bool bias;
  Activation activation;
  Order order;  ///< of x, weight and out: rows beside one another, or parts of longer ones
};

/// Every dtype and epilogue, sizes that no block divides, one row, and rows that lie apart.
std::vector<LinearCase> linear_cases(std::span<const DType> dtypes);

/// The matrices of a call.
struct LinearTensors {
  TestTensor x, weight, bias, out;
  LinearArgs args(const LinearCase& c);
};

/// Compares what `run` leaves in `out` with the reference in fp64, within a derived bound.
void expect_linear(const LinearCase& c, const std::function<void(LinearTensors&)>& run);

}  // namespace vsa::test
