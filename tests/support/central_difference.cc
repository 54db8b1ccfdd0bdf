#include "tests/support/central_difference.h"

#include <algorithm>
#include <cmath>

namespace vsa::test {

double weighted_sum(const TestTensor& x, const TestTensor& weights) {
  const std::vector<double> a = x.values();
  const std::vector<double> w = weights.values();
  double sum = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!std::isnan(w[i])) sum += a[i] * w[i];
  }
  return sum;
}

TestTensor numeric_gradient(TestTensor& x, const std::function<double()>& loss) {
  constexpr double kStep = 0x1p-10;
  const std::vector<double> at = x.values();
  std::vector<double> gradient(at.size(), 0.0);
  for (size_t i = 0; i < at.size(); ++i) {
    if (std::isnan(at[i])) continue;
    std::vector<double> moved = at;
    const auto loss_at = [&](double steps) {
      moved[i] = at[i] + steps * kStep;
      x.set_values(moved);
      return loss();
    };
    gradient[i] =
        (8.0 * (loss_at(1.0) - loss_at(-1.0)) - (loss_at(2.0) - loss_at(-2.0))) / (12.0 * kStep);
  }
  x.set_values(at);
  TestTensor result(DType::kF64, x.dims());
  result.set_values(gradient);
  return result;
}

Tolerance difference_tolerance(const TestTensor& gradient) {
  double largest = 0.0;
  for (const double g : gradient.values()) largest = std::max(largest, std::abs(g));
  return {.bound = {1e-9 * (1.0 + largest)}, .origin = "five-point rule, h = 2^-10"};
}

}  // namespace vsa::test
