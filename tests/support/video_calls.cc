#include "tests/support/video_calls.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/compare.h"
#include "tests/support/tolerance.h"

namespace vsa::test {
namespace {

constexpr Context kReference{.backend = BackendId::kReference};
double same(double x) { return x; }
double absolute(double x) { return std::abs(x); }

ConstTensor given(bool is, const TestTensor& t) { return is ? t.view() : ConstTensor{}; }

/// Adds the rounding of the result to bounds of what was rounded.
Tolerance rounded(std::vector<double> errors, const std::vector<double>& want, DType dtype,
                  const char* origin) {
  // Below the normal numbers of f16 rounding is absolute.
  const double least = dtype == DType::kF16 ? std::ldexp(1.0, -25) : 0.0;
  for (size_t i = 0; i < want.size(); ++i) {
    errors[i] += eps(dtype) / 2.0 * (std::abs(want[i]) + errors[i]) + least + 1e-30;
  }
  return {.bound = std::move(errors), .origin = origin};
}

TestTensor conv3d_in_f64(const Conv3dTensors& t, const Conv3dCase& c, double (*of)(double)) {
  Conv3dTensors wide{.x = t.x.map(of),
                     .weight = t.weight.map(of),
                     .out = TestTensor(DType::kF64, t.out.dims(), Order::kBhsd)};
  throw_if_error(conv3d(kReference, wide.args(c)));
  return wide.out;
}

}  // namespace

std::vector<Conv3dCase> conv3d_cases() {
  return {
      {"Causal3x3x3", 4, 5, 7, 24, 40, 3, 3}, {"OneFrame", 3, 6, 5, 16, 8, 3, 3},
      {"OverTime", 5, 3, 4, 16, 32, 3, 1},    {"OverRowsAndColumns", 2, 9, 33, 8, 72, 1, 3},
      {"Pointwise", 2, 3, 5, 40, 16, 1, 1},   {"Edge5", 2, 4, 3, 8, 8, 2, 5},
  };
}

Conv3dArgs Conv3dTensors::args(const Conv3dCase& c) {
  return {.x = x.view(),
          .weight = weight.view(),
          .height = c.height,
          .kernel_frames = c.kernel_frames,
          .kernel_edge = c.kernel_edge,
          .out = out.view()};
}

/// The bound counts K + 2 roundings of f32 sums, relative to the sum of magnitudes, and one
/// rounding of the result.
void expect_conv3d(const Conv3dCase& c, DType dtype,
                   const std::function<void(Conv3dTensors&)>& run) {
  const int64_t pixels = c.height * c.width;
  const int64_t taps = c.kernel_frames * c.kernel_edge * c.kernel_edge;
  const auto k = static_cast<double>(taps * c.c_in);
  Conv3dTensors t{
      .x = normal_tensor(dtype, {1, c.frames, pixels, c.c_in}, 1, Order::kBhsd),
      .weight = normal_tensor(dtype, {1, c.c_out, taps, c.c_in}, 2, Order::kBhsd, 1 / std::sqrt(k)),
      .out = TestTensor(dtype, {1, c.frames - c.kernel_frames + 1, pixels, c.c_out}, Order::kBhsd)};
  run(t);
  EXPECT_TRUE(t.out.guards_intact()) << "memory around out was written";
  const TestTensor want = conv3d_in_f64(t, c, same);
  std::vector<double> errors = conv3d_in_f64(t, c, absolute).values();
  for (double& e : errors) e *= (k + 2.0) * eps(DType::kF32);
  expect_close(t.out, want, rounded(std::move(errors), want.values(), dtype, "sum |x||w|"));
}

std::vector<PixelNormCase> pixel_norm_cases() {
  constexpr Dims kWan{.batch = 1, .num_heads = 2, .seq_len = 35, .head_dim = 96};
  constexpr Dims kWide{.batch = 1, .num_heads = 1, .seq_len = 9, .head_dim = 384};
  constexpr Dims kNarrow{.batch = 2, .num_heads = 3, .seq_len = 65, .head_dim = 8};
  return {
      {"NormSilu", kWan, false, false, true, true, true},
      {"BiasNormSilu", kWan, true, false, true, true, true},
      {"AddNormSilu", kWide, true, true, true, true, true, Residual::kAdd, 0, Order::kSliced},
      {"ReplaceNorm", kWan, true, true, true, false, true, Residual::kReplace},
      {"AddAlone", kNarrow, false, true, false, false, false},
      {"Copy", kNarrow, false, false, false, false, true, Residual::kAdd, 0, Order::kFused},
      {"Silu", kNarrow, true, false, false, true, true},
      {"FirstThreeChannels", kNarrow, true, false, false, false, true, Residual::kAdd, 3},
      {"OddChannels",
       {.batch = 1, .num_heads = 2, .seq_len = 7, .head_dim = 200},
       true,
       true,
       true,
       true,
       true},
      {"ManyChannels",
       {.batch = 1, .num_heads = 1, .seq_len = 11, .head_dim = 1024},
       true,
       true,
       true,
       true,
       true},
  };
}

PixelNormArgs PixelNormTensors::args(const PixelNormCase& c) {
  PixelNormArgs args{.y = y.view(),
                     .bias = given(c.bias, bias),
                     .residual = c.residual,
                     .gamma = given(c.gamma, gamma),
                     .activation = c.silu ? Activation::kSilu : Activation::kNone};
  if (c.x) args.x = x.view();
  if (c.out) args.out = out.view();
  return args;
}

PixelNormTensors pixel_norm_tensors(const PixelNormCase& c, DType dtype, DType out_dtype) {
  Dims out = c.dims;
  if (c.channels_out > 0) out.head_dim = c.channels_out;
  const Dims vector{.head_dim = c.dims.head_dim};
  return {.y = normal_tensor(dtype, c.dims, 1, c.order, 3.0),
          .bias = normal_tensor(DType::kF32, vector, 2),
          .x = normal_tensor(dtype, c.dims, 3, c.order),
          .gamma = normal_tensor(DType::kF32, vector, 4),
          .out = TestTensor(out_dtype, out, c.order)};
}

/// v is a sum of up to three numbers in f32: two roundings of the sum of magnitudes m. Where x
/// stores it, out is held to the x that was stored. The norm multiplies v_d by s = sqrt(D) / |v|
/// gamma_d: an error of v_d counts s times, and |v| is off by at most the norm of the errors and
/// (D / 2 + 8) roundings. SiLU's slope is at most 1.1; its own steps, with an exponential that is
/// off by 2 + 1.16 |z| roundings, are 8 + 2 |z|.
void expect_pixel_norm(const PixelNormCase& c, const PixelNormTensors& in,
                       const std::function<void(PixelNormTensors&)>& run) {
  PixelNormTensors t = in;
  run(t);
  EXPECT_TRUE(t.out.guards_intact() && t.x.guards_intact()) << "memory between rows was written";
  EXPECT_TRUE(same_bits(t.y, in.y));
  const double u = eps(DType::kF32);
  const auto d_of = [&](size_t i) { return i % static_cast<size_t>(c.dims.head_dim); };
  const std::vector<double> y = in.y.values(), x = in.x.values(), bias = in.bias.values();
  std::vector<double> v = y, error(y.size());
  const bool adds = c.x && c.residual == Residual::kAdd;
  for (size_t i = 0; i < v.size(); ++i) {
    v[i] += (c.bias ? bias[d_of(i)] : 0.0) + (adds ? x[i] : 0.0);
    error[i] =
        2 * u *
        (std::abs(y[i]) + (c.bias ? std::abs(bias[d_of(i)]) : 0.0) + (adds ? std::abs(x[i]) : 0.0));
  }
  if (c.x) {
    TestTensor want(DType::kF64, c.dims);
    want.set_values(v);
    expect_close(t.x, want, rounded(error, v, t.x.dtype(), "|y| + |bias| + |x|"));
    v = t.x.values();
    std::ranges::fill(error, 0.0);
  } else if (!c.bias) {
    std::ranges::fill(error, 0.0);
  }
  if (!c.out) return;

  TestTensor sums(DType::kF64, c.dims);
  sums.set_values(v);
  PixelNormTensors wide{.y = sums,
                        .bias = {},
                        .x = {},
                        .gamma = in.gamma.as(DType::kF64),
                        .out = TestTensor(DType::kF64, c.dims)};
  PixelNormCase alone = c;
  alone.bias = alone.x = alone.silu = false;
  throw_if_error(pixel_norm(kReference, wide.args(alone)));
  std::vector<double> z = wide.out.values();
  const auto channels = static_cast<size_t>(c.dims.head_dim);
  for (size_t first = 0; c.gamma && first < z.size(); first += channels) {
    double length = 0.0, off = 0.0;
    for (size_t i = first; i < first + channels; ++i) {
      length += v[i] * v[i];
      off += error[i] * error[i];
    }
    const double relative = std::sqrt(off / length) + (static_cast<double>(channels) / 2 + 8) * u;
    for (size_t i = first; i < first + channels; ++i) {
      const double by = std::sqrt(static_cast<double>(channels) / length) *
                        std::abs(in.gamma.at(0, 0, 0, static_cast<int64_t>(d_of(i))));
      error[i] = by * error[i] + std::abs(z[i]) * relative;
    }
  }
  if (c.silu) {
    for (size_t i = 0; i < z.size(); ++i) {
      const double silu = z[i] / (1.0 + std::exp(-z[i]));
      error[i] = 1.1 * error[i] + (8 + 2 * std::abs(z[i])) * u * std::abs(silu);
      z[i] = silu;
    }
  }
  std::vector<double> want, bound;  // of the channels that out has
  for (size_t i = 0; i < z.size(); ++i) {
    if (d_of(i) >= static_cast<size_t>(t.out.dims().head_dim)) continue;
    want.push_back(z[i]);
    bound.push_back(error[i]);
  }
  TestTensor expected(DType::kF64, t.out.dims());
  expected.set_values(want);
  expect_close(t.out, expected, rounded(bound, want, t.out.dtype(), "|v| s, and its roundings"));
}

std::vector<UpsampleCase> upsample_cases() {
  return {{"Space", 3, 4, 5, 24, 1, false},
          {"SpaceBias", 2, 3, 7, 8, 1, true},
          {"SpaceAndTime", 6, 2, 3, 16, 2, true},
          {"OneRow", 4, 1, 9, 96, 2, false}};
}

UpsampleArgs UpsampleTensors::args(const UpsampleCase& c) {
  return {.x = x.view(),
          .bias = given(c.bias, bias),
          .height = c.height,
          .frames_each = c.frames_each,
          .out = out.view()};
}

void expect_upsample(const UpsampleCase& c, DType dtype,
                     const std::function<void(UpsampleTensors&)>& run) {
  const int64_t wide = c.channels * c.frames_each;
  const int64_t pixels = c.height * c.width;
  UpsampleTensors t{
      .x = normal_tensor(dtype, {1, c.frames / c.frames_each, pixels, wide}, 1, Order::kBhsd),
      .bias = normal_tensor(DType::kF32, {.head_dim = wide}, 2),
      .out = TestTensor(dtype, {1, c.frames, 4 * pixels, c.channels}, Order::kBhsd)};
  run(t);
  EXPECT_TRUE(t.out.guards_intact()) << "memory around out was written";
  const auto in_f64 = [&](double (*of)(double)) {
    UpsampleTensors f64{.x = t.x.map(of),
                        .bias = t.bias.map(of),
                        .out = TestTensor(DType::kF64, t.out.dims(), Order::kBhsd)};
    UpsampleArgs args = f64.args(c);
    throw_if_error(upsample(kReference, args));
    return f64.out;
  };
  const TestTensor want = in_f64(same);
  if (!c.bias) return expect_close(t.out, want, exact());
  std::vector<double> errors = in_f64(absolute).values();
  for (double& e : errors) e *= eps(DType::kF32);
  expect_close(t.out, want, rounded(std::move(errors), want.values(), dtype, "|x| + |bias|"));
}

std::vector<SoftmaxCase> softmax_cases() {
  return {{"All", {.batch = 2, .num_heads = 3, .seq_len = 5, .head_dim = 24}, 24, 0.3F},
          {"Some", {.batch = 1, .num_heads = 1, .seq_len = 9, .head_dim = 1032}, 1025, 1.0F},
          {"One", {.batch = 1, .num_heads = 2, .seq_len = 3, .head_dim = 8}, 1, 5.0F},
          {"Steep", {.batch = 1, .num_heads = 1, .seq_len = 4, .head_dim = 264}, 259, -30.0F}};
}

SoftmaxArgs SoftmaxTensors::args(const SoftmaxCase& c) {
  return {.x = x.view(), .scale = c.scale, .columns = c.columns, .out = out.view()};
}

/// The exponent is off by a rounding of each of its two terms, which counts relatively; the sum by
/// as many roundings as there are columns.
void expect_softmax(const SoftmaxCase& c, DType out_dtype,
                    const std::function<void(SoftmaxTensors&)>& run) {
  SoftmaxTensors t{.x = normal_tensor(DType::kF32, c.dims, 1), .out = {}};
  t.out = TestTensor(out_dtype, c.dims);
  for (int64_t s = 0; s < c.dims.seq_len; ++s) {  // what is not read
    for (int64_t n = c.columns; n < c.dims.head_dim; ++n) t.x.set(0, 0, s, n, std::nan(""));
  }
  run(t);
  EXPECT_TRUE(t.out.guards_intact()) << "memory between rows was written";
  SoftmaxTensors wide{.x = t.x.as(DType::kF64), .out = TestTensor(DType::kF64, c.dims)};
  throw_if_error(softmax(kReference, wide.args(c)));
  const std::vector<double> want = wide.out.values(), x = t.x.values();
  double largest = 0.0;  // of any |scale x|
  for (const double e : x) {
    if (!std::isnan(e)) largest = std::max(largest, std::abs(static_cast<double>(c.scale) * e));
  }
  const double relative =
      (static_cast<double>(c.columns) + 12.0 + 4.0 * largest) * eps(DType::kF32);
  std::vector<double> errors = want;
  for (double& e : errors) e = e * relative + std::ldexp(1.0, -126);
  expect_close(t.out, wide.out, rounded(std::move(errors), want, out_dtype, "columns, |scale x|"));
}

}  // namespace vsa::test
