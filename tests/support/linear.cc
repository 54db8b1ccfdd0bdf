#include "tests/support/linear.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/compare.h"
#include "tests/support/tolerance.h"

namespace vsa::test {
namespace {

constexpr Context kReference{.backend = BackendId::kReference};

LinearTensors drawn(const LinearCase& c) {
  return {.x = normal_tensor(c.dtype, {1, 1, c.m, c.k}, 1, c.order),
          .weight = normal_tensor(c.dtype, {1, 1, c.n, c.k}, 2, c.order,
                                  1.0 / std::sqrt(static_cast<double>(c.k))),
          .bias = normal_tensor(c.out_dtype, {1, 1, 1, c.n}, 3),
          .out = TestTensor(c.out_dtype, {1, 1, c.m, c.n}, c.order)};
}

/// The same in fp64; `of` is applied to every input.
TestTensor in_f64(const LinearTensors& t, LinearCase c, double (*of)(double)) {
  c.dtype = c.out_dtype = DType::kF64;
  LinearTensors wide{.x = t.x.map(of),
                     .weight = t.weight.map(of),
                     .bias = t.bias.map(of),
                     .out = TestTensor(DType::kF64, t.out.dims())};
  throw_if_error(linear(kReference, wide.args(c)));
  return wide.out;
}

}  // namespace

std::vector<LinearCase> linear_cases(std::span<const DType> dtypes) {
  std::vector<LinearCase> cases;
  for (const DType dtype : dtypes) {
    for (const DType out : {dtype, DType::kF32}) {
      for (const bool bias : {false, true}) {
        for (const Activation activation : {Activation::kNone, Activation::kGeluTanh}) {
          cases.push_back({.m = 67,
                           .n = 136,
                           .k = 72,
                           .dtype = dtype,
                           .out_dtype = out,
                           .bias = bias,
                           .activation = activation,
                           .order = bias ? Order::kBshd : Order::kFused});
        }
      }
    }
    for (const auto& [m, n, k] :
         {std::array<int64_t, 3>{1, 64, 256}, {300, 8, 8}, {5, 520, 1032}}) {
      cases.push_back({.m = m,
                       .n = n,
                       .k = k,
                       .dtype = dtype,
                       .out_dtype = dtype,
                       .bias = true,
                       .activation = Activation::kNone,
                       .order = Order::kFused});
    }
  }
  return cases;
}

LinearArgs LinearTensors::args(const LinearCase& c) {
  return {.x = x.view(),
          .weight = weight.view(),
          .bias = c.bias ? ConstTensor(bias.view()) : ConstTensor{},
          .activation = c.activation,
          .out = out.view()};
}

/// The bound counts K + 2 roundings of f32 sums, relative to the sum of magnitudes, and one
/// rounding of the result. GELU's slope is at most 1.13, and its own steps in f32 are those of 16
/// roundings of its argument.
void expect_linear(const LinearCase& c, const std::function<void(LinearTensors&)>& run) {
  LinearTensors t = drawn(c);
  const LinearTensors before = t;
  run(t);
  EXPECT_TRUE(t.out.guards_intact()) << "memory between rows was written";
  EXPECT_TRUE(same_bits(t.x, before.x) && same_bits(t.weight, before.weight));
  const TestTensor want = in_f64(t, c, [](double x) { return x; });
  LinearCase sums = c;
  sums.activation = Activation::kNone;
  const TestTensor size = in_f64(t, sums, [](double x) { return std::abs(x); });
  const bool gelu = c.activation == Activation::kGeluTanh;
  const double roundings = (static_cast<double>(c.k) + 2.0) * (gelu ? 1.13 : 1.0) + (gelu ? 16 : 0);
  Tolerance tolerance{.bound = size.values(), .origin = "sum |x||w| + |bias|"};
  const std::vector<double> values = want.values();
  // Below the normal numbers of f16 rounding is absolute.
  const double least = c.out_dtype == DType::kF16 ? std::ldexp(1.0, -25) : 0.0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double sum_error = roundings * eps(DType::kF32) * tolerance.bound[i];
    tolerance.bound[i] =
        sum_error + eps(c.out_dtype) / 2.0 * (std::abs(values[i]) + sum_error) + least + 1e-30;
  }
  expect_close(t.out, want, tolerance);
}

}  // namespace vsa::test
