// src/reference/residual_norm.cc by hand.
#include "vsa/residual_norm.h"

#include "tests/unit/reference/reference_test.h"

namespace vsa::test {
namespace {

constexpr Dims kDims{1, 2, 3, 4};  // three tokens of two heads of 4
constexpr Dims kModulation{1, 2, 1, 4};

TestTensor tokens(uint64_t seed, DType dtype = DType::kF64) {
  return normal_tensor(dtype, kDims, seed);
}

/// x after the call.
TestTensor sum_of(TestTensor x, ResidualNormArgs args) {
  args.x = x.view();
  throw_if_error(residual_norm(kReference, args));
  EXPECT_TRUE(x.guards_intact());
  return x;
}

/// out of the call, in the dtype of x.
TestTensor norm_of(TestTensor x, ResidualNormArgs args) {
  TestTensor out(x.dtype(), x.dims());
  args.x = x.view();
  args.out = out.view();
  throw_if_error(residual_norm(kReference, args));
  EXPECT_TRUE(x.guards_intact() && out.guards_intact());
  return out;
}

/// 10 h + d in every element.
TestTensor places() {
  TestTensor t(DType::kF64, kModulation);
  for (int64_t h = 0; h < 2; ++h) {
    for (int64_t d = 0; d < 4; ++d) t.set(0, h, 0, d, static_cast<double>(10 * h + d));
  }
  return t;
}

/// +1 and -1 in turns: mean 0, variance 1.
TestTensor signs(double size = 1.0) {
  TestTensor x(DType::kF64, kDims);
  for (int64_t h = 0; h < 2; ++h) {
    for (int64_t s = 0; s < 3; ++s) {
      for (int64_t d = 0; d < 4; ++d) x.set(0, h, s, d, d % 2 == 0 ? size : -size);
    }
  }
  return x;
}

TEST(ReferenceResidualNorm, TheGateMultipliesTheBranchAlone) {
  const TestTensor x = constant_tensor(DType::kF64, kDims, 2.0);
  const TestTensor y = constant_tensor(DType::kF64, kDims, 3.0);
  const TestTensor gate = places();
  const TestTensor gated = sum_of(x, {.x = {}, .y = y.view(), .gate = gate.view()});
  EXPECT_EQ(gated.at(0, 0, 0, 0), 2.0);
  EXPECT_EQ(gated.at(0, 1, 2, 3), 2.0 + 13.0 * 3.0);
  expect_close(sum_of(x, {.x = {}, .y = y.view()}), constant_tensor(DType::kF64, kDims, 5.0),
               exact());
}

TEST(ReferenceResidualNorm, OverAllHeadsOfATokenWithTheBiasedVariance) {
  expect_close(norm_of(signs(), {.x = {}, .eps = 0.0F}), signs(), exact());
  expect_close(norm_of(signs(16.0), {.x = {}, .eps = 0.0F}), signs(), exact());
  TestTensor x = signs();  // the second head of the last token at another mean
  for (int64_t d = 0; d < 4; ++d) x.set(0, 1, 2, d, 6.0);
  const TestTensor got = norm_of(x, {.x = {}, .eps = 0.0F});
  // mean 3; squares of 4, 16 and four times 9, over 8 elements
  const double rstd = 1.0 / std::sqrt((2 * 4.0 + 2 * 16.0 + 4 * 9.0) / 8.0);
  EXPECT_NEAR(got.at(0, 0, 2, 0), -2.0 * rstd, 1e-15);
  EXPECT_NEAR(got.at(0, 0, 2, 1), -4.0 * rstd, 1e-15);
  EXPECT_NEAR(got.at(0, 1, 2, 3), 3.0 * rstd, 1e-15);
  EXPECT_EQ(got.at(0, 1, 1, 3), -1.0) << "another token";
}

TEST(ReferenceResidualNorm, EpsIsAddedToTheVariance) {
  expect_close(norm_of(signs(), {.x = {}, .eps = 3.0F}), signs(0.5), exact());
}

TEST(ReferenceResidualNorm, AnRmsNormLeavesTheMean) {
  const TestTensor two = constant_tensor(DType::kF64, kDims, 2.0);
  const ResidualNormArgs args{.x = {}, .eps = 0.0F, .norm = NormKind::kRms};
  expect_close(norm_of(two, args), constant_tensor(DType::kF64, kDims, 1.0), exact());
  const TestTensor scale = places();
  ResidualNormArgs scaled = args;
  scaled.scale = scale.view();
  scaled.eps = 12.0F;
  EXPECT_EQ(norm_of(two, scaled).at(0, 1, 2, 3), 13.0 * 0.5) << "2 / sqrt(4 + 12)";
}

TEST(ReferenceResidualNorm, ScaleMultipliesAndShiftIsAdded) {
  const TestTensor scale = places();
  const TestTensor shift = constant_tensor(DType::kF64, kModulation, 100.0);
  const ResidualNormArgs args{.x = {}, .scale = scale.view(), .shift = shift.view(), .eps = 0.0F};
  const TestTensor got = norm_of(signs(), args);
  EXPECT_EQ(got.at(0, 1, 2, 2), 112.0);
  EXPECT_EQ(got.at(0, 1, 0, 3), 87.0);
  EXPECT_EQ(got.at(0, 0, 1, 0), 100.0);
}

TEST(ReferenceResidualNorm, TheNormIsOfXAsItIsStored) {
  TestTensor x = constant_tensor(DType::kBF16, kDims, 1.0);
  const TestTensor y = signs(std::ldexp(1.0, -10)).as(DType::kBF16);  // lost beside 1
  TestTensor out(DType::kBF16, kDims);
  throw_if_error(
      residual_norm(kReference, {.x = x.view(), .y = y.view(), .eps = 1e-12F, .out = out.view()}));
  expect_close(x, constant_tensor(DType::kF64, kDims, 1.0), exact());
  expect_close(out, constant_tensor(DType::kF64, kDims, 0.0), exact());
}

TEST(ReferenceResidualNorm, WithoutAYXIsOnlyRead) {
  TestTensor x = tokens(1);
  EXPECT_FALSE(same_bits(norm_of(x, {}), tokens(1)));
  EXPECT_TRUE(same_bits(x, tokens(1)));
  Tensor same_rows = x.view();  // every token is the first one
  same_rows.stride[2] = 0;
  TestTensor out(DType::kF64, kDims);
  throw_if_error(residual_norm(kReference, {.x = same_rows, .out = out.view()}));
  EXPECT_EQ(out.at(0, 1, 2, 3), norm_of(x, {}).at(0, 1, 0, 3));
}

TEST(ReferenceResidualNorm, WrongArgumentsAreNamed) {
  const TestTensor row(DType::kF64, kModulation);
  const TestTensor y = tokens(2);
  const TestTensor bf16 = tokens(2, DType::kBF16);
  TestTensor out(DType::kF64, kDims);
  TestTensor out_bf16(DType::kBF16, kDims);
  const auto refused = [&](DType dtype, ResidualNormArgs args, const std::string& text) {
    TestTensor x = tokens(1, dtype);
    if (args.x.empty()) args.x = x.view();
    const Status status = residual_norm(kReference, args);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message().rfind("[residual_norm] " + text, 0), 0U) << status.message();
    EXPECT_TRUE(same_bits(x, tokens(1, dtype)));
  };
  const DType f64 = DType::kF64;
  refused(f64, {.x = {}}, "y: expected a tensor, as there is no out, got none");
  refused(f64, {.x = {}, .gate = row.view(), .out = out.view()}, "gate: expected none without y");
  refused(f64, {.x = {}, .y = y.view(), .scale = row.view()}, "scale: expected none without out");
  refused(f64, {.x = {}, .y = y.view(), .shift = row.view()}, "shift: expected none without out");
  for (const float bad : {-1.0F, std::nanf(""), HUGE_VALF}) {
    refused(f64, {.x = {}, .y = y.view(), .eps = bad}, "eps: expected a finite number >= 0");
  }
  refused(f64, {.x = {}, .y = y.view(), .norm = static_cast<NormKind>(2)},
          "norm: expected kLayer or kRms, got 2");
  refused(f64, {.x = {}, .y = row.view()},
          "y: expected f32|bf16|f16|f64 [1,2,3,4], got f64 [1,2,1");
  refused(f64, {.x = {}, .y = y.view(), .gate = y.view()}, "gate: expected f32|f64 [1,2,1,4]");
  refused(f64, {.x = {}, .scale = y.view(), .out = out.view()},
          "scale: expected f32|f64 [1,2,1,4]");
  refused(f64, {.x = {}, .shift = bf16.view(), .out = out.view()}, "shift: expected f32|f64");
  // The dtypes of x, y and out, of which only that of x may be f32 (f64) beside another one.
  refused(DType::kF16, {.x = {}, .y = bf16.view()}, "y: expected f16 [1,2,3,4], got bf16");
  refused(DType::kF16, {.x = {}, .out = out_bf16.view()}, "out: expected f16 [1,2,3,4], got bf16");
  refused(f64, {.x = {}, .y = y.view(), .out = out_bf16.view()}, "out: expected f64");
  // No two of x, y and out share memory, and x is one that can be written.
  refused(f64, {.x = {}, .y = out.view(), .out = out.view()}, "out: expected memory of its own");
  TestTensor x = tokens(1);
  refused(f64, {.x = x.view(), .y = x.view()}, "x: expected memory of its own");
  refused(f64, {.x = x.view(), .out = x.view()}, "out: expected memory of its own");
  Tensor same_rows = x.view();
  same_rows.stride[2] = 0;
  refused(f64, {.x = same_rows, .y = y.view()}, "x: expected positive strides");
}

}  // namespace
}  // namespace vsa::test
