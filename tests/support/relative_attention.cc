#include "tests/support/relative_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/compare.h"
#include "tests/support/tolerance.h"

namespace vsa::test {
namespace {

constexpr Context kReference{.backend = BackendId::kReference};

/// The same in fp64, with `of` applied to the values.
TestTensor in_f64(const RelativeAttentionTensors& t, const RelativeAttentionCase& c,
                  double (*of)(double)) {
  RelativeAttentionTensors wide = t;
  for (TestTensor* each : {&wide.q, &wide.k, &wide.bias, &wide.out}) *each = each->as(DType::kF64);
  wide.v = t.v.map(of);
  throw_if_error(relative_attention(kReference, wide.args(c)));
  return wide.out;
}

/// The largest sum of magnitudes that a finite score of the row is made of.
double score_size(const RelativeAttentionTensors& t, const RelativeAttentionCase& c, int64_t b,
                  int64_t h, int64_t i) {
  const double scale = static_cast<double>(c.scale.value_or(default_scale(c.head_dim)));
  double largest = 0.0;
  for (int64_t j = 0; j < c.num_keys; ++j) {
    double size = 0.0;
    for (int64_t d = 0; d < c.head_dim; ++d) {
      size += std::abs(t.q.at(b, h, i, d) * t.k.at(b, h / (c.num_heads / c.num_kv_heads), j, d));
    }
    const double bias = std::abs(t.bias.at(b, h, 0, j - i + c.num_queries - 1));
    if (std::isfinite(bias)) largest = std::max(largest, scale * size + bias);
  }
  return largest;
}

}  // namespace

std::vector<RelativeAttentionCase> relative_attention_cases() {
  return {
      {"OnePair", 1, 1, 1, 1, 1, 8, {}, Order::kBshd},
      {"Q5_K70_D24", 2, 4, 2, 5, 70, 24, 1.0F, Order::kFused},
      {"Q67_K3_D16", 1, 3, 1, 67, 3, 16, {}, Order::kSliced},
      {"Q37_K37_D64", 2, 4, 4, 37, 37, 64, 1.0F, Order::kFused},
      {"Q33_K64_D128", 1, 2, 2, 33, 64, 128, {}, Order::kBhsd},
      {"Q512_K512_D64", 1, 2, 2, 512, 512, 64, 1.0F, Order::kFused},
  };
}

RelativeAttentionArgs RelativeAttentionTensors::args(const RelativeAttentionCase& c) {
  return {.q = q.view(),
          .k = k.view(),
          .v = v.view(),
          .bias = bias.view(),
          .scale = c.scale,
          .out = out.view()};
}

RelativeAttentionTensors relative_attention_tensors(const RelativeAttentionCase& c, DType dtype) {
  const Dims q{c.batch, c.num_heads, c.num_queries, c.head_dim};
  const Dims kv{c.batch, c.num_kv_heads, c.num_keys, c.head_dim};
  const Dims bias{c.batch, c.num_heads, 1, c.num_queries + c.num_keys - 1};
  // Scores of some units, whatever the scale.
  const double sigma =
      c.scale ? std::sqrt(2.0) * std::pow(static_cast<double>(c.head_dim), -0.25) : 1.0;
  return {.q = normal_tensor(dtype, q, 1, c.order, sigma),
          .k = normal_tensor(dtype, kv, 2, c.order, sigma),
          .v = normal_tensor(dtype, kv, 3, c.order),
          .bias = normal_tensor(DType::kF32, bias, 4),
          .out = TestTensor(dtype, q, c.order)};
}

/// With u = eps_f32 / 2: a score has an error of at most (D + 6) u S, where S is the sum of the
/// magnitudes that it is made of, and D + 6 counts its products, the scale, the bias and what comes
/// before the exponential. A weight has twice that as its relative error, and 8 u for exponential
/// and division. The sum over n keys adds n u, and the result is rounded once to its dtype.
void expect_relative_attention(const RelativeAttentionCase& c, const RelativeAttentionTensors& in,
                               const std::function<void(RelativeAttentionTensors&)>& run) {
  RelativeAttentionTensors got = in;
  run(got);
  EXPECT_TRUE(got.out.guards_intact()) << "memory between rows was written";
  const TestTensor want = in_f64(in, c, [](double x) { return x; });
  const DType dtype = in.out.dtype();
  const double u = eps(DType::kF32) / 2.0;
  // Below the normal numbers of f16 rounding is absolute.
  const double least = dtype == DType::kF16 ? std::ldexp(1.0, -25) : 1e-30;
  Tolerance tolerance{.bound = in_f64(in, c, [](double x) { return std::abs(x); }).values(),
                      .origin = "sum p |v|"};
  size_t at = 0;
  for (int64_t b = 0; b < c.batch; ++b) {
    for (int64_t h = 0; h < c.num_heads; ++h) {
      for (int64_t i = 0; i < c.num_queries; ++i) {
        const double weight =
            2.0 * (static_cast<double>(c.head_dim) + 6.0) * score_size(in, c, b, h, i) + 8.0;
        const double relative = eps(dtype) / 2.0 + (static_cast<double>(c.num_keys) + weight) * u;
        for (int64_t d = 0; d < c.head_dim; ++d, ++at) {
          tolerance.bound[at] = tolerance.bound[at] * relative + least;
        }
      }
    }
  }
  expect_close(got.out, want, tolerance);
}

}  // namespace vsa::test
