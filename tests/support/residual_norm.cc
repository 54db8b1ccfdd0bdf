#include "tests/support/residual_norm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/compare.h"
#include "tests/support/tolerance.h"

namespace vsa::test {
namespace {

constexpr Context kReference{.backend = BackendId::kReference};

/// Below the normal numbers of f16 rounding is absolute.
double least(DType dtype) { return dtype == DType::kF16 ? std::ldexp(1.0, -25) : 1e-30; }

/// What the reference makes of the same numbers in f64.
ResidualNormTensors on_reference(const ResidualNormTensors& in, const ResidualNormExtras& extras) {
  ResidualNormTensors t = in;
  for (TestTensor* each : {&t.x, &t.y, &t.gate, &t.scale, &t.shift, &t.out}) {
    *each = each->as(DType::kF64);
  }
  throw_if_error(residual_norm(kReference, t.args(extras)));
  return t;
}

/// Element (b, h, 0, d) of gate, scale or shift; `otherwise` if it is left out.
double modulation(const TestTensor& t, bool given, bool shared, int64_t b, int64_t h, int64_t d,
                  double otherwise) {
  return given ? t.at(shared ? 0 : b, h, 0, d) : otherwise;
}

/// Calls visit(b, h, s, d) in the order of TestTensor::values().
template <class Visit>
void for_each_element(const Dims& dims, const Visit& visit) {
  for (int64_t b = 0; b < dims.batch; ++b) {
    for (int64_t h = 0; h < dims.num_heads; ++h) {
      for (int64_t s = 0; s < dims.seq_len; ++s) {
        for (int64_t d = 0; d < dims.head_dim; ++d) visit(b, h, s, d);
      }
    }
  }
}

/// One rounding to the dtype of x, and in fp32 a product and a sum.
Tolerance sum_tolerance(const ResidualNormTensors& in, const ResidualNormExtras& extras) {
  const DType dtype = in.x.dtype();
  const double relative = eps(dtype) / 2.0 + 2.0 * eps(DType::kF32);
  Tolerance tolerance{.bound = {}, .origin = "|x| + |gate y|"};
  for_each_element(in.x.dims(), [&](int64_t b, int64_t h, int64_t s, int64_t d) {
    const double gate = modulation(in.gate, extras.gate, extras.shared, b, h, d, 1.0);
    const double size = std::abs(in.x.at(b, h, s, d)) + std::abs(gate * in.y.at(b, h, s, d));
    tolerance.bound.push_back(relative * size + least(dtype));
  });
  return tolerance;
}

/// What the error of out rests on, of one token with n elements.
struct TokenSize {
  double mean = 0.0, mean_size = 0.0, rstd = 0.0;
};

TokenSize size_of_token(const TestTensor& x, NormKind norm, double norm_eps, int64_t b, int64_t s) {
  const double n = static_cast<double>(x.dims().num_heads * x.dims().head_dim);
  TokenSize size;
  double var = 0.0;
  const auto for_each = [&](const auto& visit) {
    for (int64_t h = 0; h < x.dims().num_heads; ++h) {
      for (int64_t d = 0; d < x.dims().head_dim; ++d) visit(x.at(b, h, s, d));
    }
  };
  for_each([&](double e) {
    size.mean += e / n;
    size.mean_size += std::abs(e) / n;
  });
  if (norm == NormKind::kRms) size.mean = size.mean_size = 0.0;  // known without an error
  for_each([&](double e) { var += (e - size.mean) * (e - size.mean) / n; });
  size.rstd = 1.0 / std::sqrt(var + norm_eps);
  return size;
}

/// One rounding to the dtype of out. In fp32, with u = eps_f32 / 2: the mean has an error of at
/// most (n + 1) u mean|x|, which moves every centred element. The sum of squares has a relative
/// error of (n + 4) u, of which the root halves; rstd, two products and a sum add 10 u. A wrong
/// mean also adds its square to the variance: that is the last term.
Tolerance norm_tolerance(const ResidualNormTensors& in, const ResidualNormExtras& extras,
                         double norm_eps) {
  const Dims dims = in.x.dims();
  const DType dtype = in.out.dtype();
  const double n = static_cast<double>(dims.num_heads * dims.head_dim);
  const double relative = eps(dtype) / 2.0 + (n + 16.0) * eps(DType::kF32);
  std::vector<TokenSize> tokens;
  for (int64_t b = 0; b < dims.batch; ++b) {
    for (int64_t s = 0; s < dims.seq_len; ++s) {
      tokens.push_back(size_of_token(in.x, extras.norm, norm_eps, b, s));
    }
  }
  Tolerance tolerance{.bound = {}, .origin = "(|x - mean| + mean|x|) rstd |scale| + |shift|"};
  for_each_element(dims, [&](int64_t b, int64_t h, int64_t s, int64_t d) {
    const TokenSize& token = tokens[static_cast<size_t>(b * dims.seq_len + s)];
    const double scale = modulation(in.scale, extras.scale, extras.shared, b, h, d, 1.0);
    const double shift = modulation(in.shift, extras.shift, extras.shared, b, h, d, 0.0);
    const double factor = token.rstd * std::abs(scale);
    const double centred = std::abs(in.x.at(b, h, s, d) - token.mean);
    const double moved = (n + 1.0) * eps(DType::kF32) / 2.0 * token.mean_size * token.rstd;
    tolerance.bound.push_back(relative * ((centred + token.mean_size) * factor + std::abs(shift)) +
                              moved * moved * centred * factor + least(dtype));
  });
  return tolerance;
}

}  // namespace

std::vector<ResidualNormExtras> residual_norm_extras() {
  return {
      {"all", true, true, true, true, true},
      {"all_shared", true, true, true, true, true, true},
      {"without_gate_and_shift", true, false, true, false, true},
      {"without_scale", true, true, false, true, true},
      {"without_out", true, true, false, false, false},
      {"sum_alone", true, false, false, false, false},
      {"without_y", false, false, true, true, true},
      {"norm_alone", false, false, false, false, true},
      {"rms", true, false, true, false, true, true, NormKind::kRms},
      {"rms_alone", false, false, false, true, true, false, NormKind::kRms},
  };
}

std::vector<ResidualNormCase> residual_norm_cases() {
  return {
      {"W32_D8", {2, 4, 33, 8}, Order::kBhsd, Order::kBshd},
      {"W64_D64", {1, 1, 32, 64}, Order::kBshd, Order::kFused},
      {"W72_D24", {2, 3, 31, 24}, Order::kFused, Order::kSliced},
      {"W512_D64", {2, 8, 3, 64}, Order::kSliced, Order::kBhsd},
      {"W768_D128", {1, 6, 4, 128}, Order::kBshd, Order::kFused},
      {"W1024_D128", {1, 8, 5, 128}, Order::kFused, Order::kBshd},
      {"W1536_D128", {2, 12, 5, 128}, Order::kBshd, Order::kBshd},
      {"W3072_D128", {1, 24, 3, 128}, Order::kBshd, Order::kFused},
      {"W5120_D128", {1, 40, 3, 128}, Order::kBshd, Order::kBshd},
      {"W8192_D64", {1, 128, 2, 64}, Order::kBshd, Order::kBhsd},
  };
}

ResidualNormArgs ResidualNormTensors::args(const ResidualNormExtras& extras) {
  const auto given = [&](TestTensor& t, bool is_given) -> ConstTensor {
    return is_given ? ConstTensor(t.view()) : ConstTensor{};
  };
  const auto shared = [&](TestTensor& t, bool is_given) {
    ConstTensor view = given(t, is_given);
    if (extras.shared) view.stride[0] = 0;
    return view;
  };
  return {.x = x.view(),
          .y = given(y, extras.y),
          .gate = shared(gate, extras.gate),
          .scale = shared(scale, extras.scale),
          .shift = shared(shift, extras.shift),
          .eps = 0.125F,  // much, so that it counts
          .norm = extras.norm,
          .out = extras.out ? out.view() : Tensor{}};
}

ResidualNormTensors residual_norm_tensors(const ResidualNormCase& shape, DType x_dtype,
                                          DType dtype) {
  const Dims& dims = shape.dims;
  const Dims modulation{dims.batch, dims.num_heads, 1, dims.head_dim};
  return {.x = normal_tensor(x_dtype, dims, 1, shape.x_order),
          .y = normal_tensor(dtype, dims, 2, shape.y_order),
          .gate = normal_tensor(DType::kF32, modulation, 3),
          .scale = normal_tensor(DType::kF32, modulation, 4),
          .shift = normal_tensor(DType::kF32, modulation, 5),
          .out = {dtype, dims, shape.y_order}};
}

void expect_residual_norm(const ResidualNormTensors& in, const ResidualNormExtras& extras,
                          const RunResidualNorm& run) {
  ResidualNormTensors got = in;
  run(got);
  EXPECT_TRUE(got.x.guards_intact() && got.out.guards_intact())
      << "memory between rows was written";
  if (extras.y) {
    ResidualNormExtras sum = extras;
    sum.scale = sum.shift = sum.out = false;
    expect_close(got.x, on_reference(in, sum).x, sum_tolerance(in, extras));
  } else {
    EXPECT_TRUE(same_bits(got.x, in.x)) << "x was written";
  }
  if (!extras.out) return;
  ResidualNormExtras norm = extras;
  norm.y = norm.gate = false;
  const double norm_eps = static_cast<double>(got.args(norm).eps);
  expect_close(got.out, on_reference(got, norm).out, norm_tolerance(got, extras, norm_eps));
}

}  // namespace vsa::test
