// Gradients by central differences, in fp64.
#pragma once

#include <functional>

#include "tests/support/compare.h"
#include "tests/support/test_tensor.h"

namespace vsa::test {

/// sum of weights * x over the elements whose weight is not NaN: the loss whose gradient with
/// respect to x is `weights`.
double weighted_sum(const TestTensor& x, const TestTensor& weights);

/// d loss / d x by the five-point rule, for every element of x that is not NaN; the others give 0.
/// `loss` must read x, which must be f64.
TestTensor numeric_gradient(TestTensor& x, const std::function<double()>& loss);

/// How far numeric_gradient may be from the truth `gradient`: with steps h = 2^-10 the rule is off
/// by h^4/30 |f^(5)| (3e-14 times a derivative of up to 10^3 here) and by the rounding of the loss
/// over h (1e-16 * 10^2 / 10^-3), so 1e-9 leaves a factor of ten on both.
Tolerance difference_tolerance(const TestTensor& gradient);

}  // namespace vsa::test
