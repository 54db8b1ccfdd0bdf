#include "tests/support/compare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "src/core/element.h"
#include "src/core/lut_row.h"

namespace vsa::test {
namespace {

/// Calls visit(row_of_a, row_of_b, b, h, s) with the offsets of all pairs of rows.
template <class Visit>
void for_each_row_pair(const ConstTensor& a, const ConstTensor& b, const Visit& visit) {
  for (int64_t n = 0; n < a.shape[0]; ++n) {
    for (int64_t h = 0; h < a.shape[1]; ++h) {
      for (int64_t s = 0; s < a.shape[2]; ++s) {
        visit(row_offset(a, n, h, s), row_offset(b, n, h, s), n, h, s);
      }
    }
  }
}

/// The distance of two values; 0 for equal infinities, infinite if only one is.
double distance(double got, double want) {
  if (std::isinf(got) || std::isinf(want)) {
    return got == want ? 0.0 : std::abs(got - want);
  }
  return std::abs(got - want);
}

}  // namespace

Tolerance exact() { return {.bound = {0.0}, .origin = "exact"}; }

testing::AssertionResult close(const ConstTensor& got, const ConstTensor& want,
                               const Tolerance& tolerance) {
  if (got.shape != want.shape) {
    return testing::AssertionFailure()
           << fmt::format("shape: expected {}, got {}", to_string(want), to_string(got));
  }
  if (got.num_elements() == 0) return testing::AssertionFailure() << "no elements to compare";
  const auto num_bounds = static_cast<int64_t>(tolerance.bound.size());
  if (num_bounds != 1 && num_bounds != got.num_elements()) {
    return testing::AssertionFailure() << fmt::format("tolerance: expected 1 or {} bounds, got {}",
                                                      got.num_elements(), num_bounds);
  }
  int64_t wrong = 0;
  int64_t element = 0;
  double worst = -1.0;
  std::string report;
  for_each_row_pair(got, want, [&](int64_t g, int64_t w, int64_t b, int64_t h, int64_t s) {
    for (int64_t d = 0; d < got.shape[3]; ++d, ++element) {
      const double x = load_element(got.data, got.dtype, g + d);
      const double y = load_element(want.data, want.dtype, w + d);
      const double bound = tolerance.bound[static_cast<size_t>(num_bounds == 1 ? 0 : element)];
      const double error = distance(x, y);
      if (error <= bound && std::isfinite(bound)) continue;  // <= is false for NaN
      ++wrong;
      // NaN and infinity are the worst; among the others, the largest excess over the bound.
      const double excess = std::isfinite(error) && std::isfinite(bound)
                                ? error - bound
                                : std::numeric_limits<double>::infinity();
      if (excess <= worst) continue;
      worst = excess;
      report = fmt::format("worst at [{},{},{},{}]: expected {}, got {}, off by {:.3g} > {:.3g}", b,
                           h, s, d, y, x, error, bound);
    }
  });
  if (wrong == 0) return testing::AssertionSuccess();
  return testing::AssertionFailure()
         << fmt::format("{} of {} elements of {} are wrong; {} ({})", wrong, got.num_elements(),
                        to_string(got), report, tolerance.origin);
}

void expect_close(const ConstTensor& got, const ConstTensor& want, const Tolerance& tolerance,
                  Caller where) {
  const testing::AssertionResult result = close(got, want, tolerance);
  if (!result) {
    ADD_FAILURE_AT(where.file, where.line) << result.message();
  }
}

testing::AssertionResult same_bits(const ConstTensor& got, const ConstTensor& want) {
  if (got.shape != want.shape || got.dtype != want.dtype) {
    return testing::AssertionFailure()
           << fmt::format("expected {}, got {}", to_string(want), to_string(got));
  }
  if (got.num_elements() == 0) return testing::AssertionFailure() << "no elements to compare";
  const int64_t width = size_bytes(got.dtype);
  const auto row_bytes = static_cast<size_t>(got.shape[3] * width);
  int64_t wrong = 0;
  std::string first;
  for_each_row_pair(got, want, [&](int64_t g, int64_t w, int64_t b, int64_t h, int64_t s) {
    const auto* x = static_cast<const std::byte*>(got.data) + g * width;
    const auto* y = static_cast<const std::byte*>(want.data) + w * width;
    if (std::memcmp(x, y, row_bytes) == 0) return;
    if (wrong++ == 0) first = fmt::format("[{},{},{}]", b, h, s);
  });
  if (wrong == 0) return testing::AssertionSuccess();
  return testing::AssertionFailure()
         << fmt::format("{} rows differ in their bits, the first at {}", wrong, first);
}

testing::AssertionResult same_lut(const ConstLut& got, const ConstLut& want) {
  const LutDims& x = got.dims;
  const LutDims& y = want.dims;
  if (x.batch != y.batch || x.num_heads != y.num_heads || x.num_q_tiles != y.num_q_tiles) {
    return testing::AssertionFailure()
           << fmt::format("lut dims: expected [{},{},{}], got [{},{},{}]", y.batch, y.num_heads,
                          y.num_q_tiles, x.batch, x.num_heads, x.num_q_tiles);
  }
  for (int64_t b = 0; b < x.batch; ++b) {
    for (int64_t h = 0; h < x.num_heads; ++h) {
      for (int64_t i = 0; i < x.num_q_tiles; ++i) {
        const auto a = lut_row(got, b, h, i);
        const auto e = lut_row(want, b, h, i);
        if (!std::ranges::equal(a, e)) {
          return testing::AssertionFailure()
                 << fmt::format("lut row [{},{},{}]: expected {}, got {}", b, h, i, e, a);
        }
      }
    }
  }
  return testing::AssertionSuccess();
}

double relative_l2(const ConstTensor& got, const ConstTensor& want) {
  double error = 0.0;
  double norm = 0.0;
  for_each_row_pair(got, want, [&](int64_t g, int64_t w, int64_t, int64_t, int64_t) {
    for (int64_t d = 0; d < got.shape[3]; ++d) {
      const double x = load_element(got.data, got.dtype, g + d);
      const double y = load_element(want.data, want.dtype, w + d);
      error += (x - y) * (x - y);
      norm += y * y;
    }
  });
  return std::sqrt(error / norm);
}

}  // namespace vsa::test
