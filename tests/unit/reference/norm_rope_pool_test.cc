// src/reference/norm_rope_pool.cc by hand.
#include "vsa/norm_rope_pool.h"

#include <numeric>

#include "tests/unit/reference/reference_test.h"

namespace vsa::test {
namespace {

constexpr int64_t kHeads = 2, kDim = 8;

/// Two tokens in one tile, then one in another; two heads of 8.
TilePlan three_tokens() { return TilePlan::grid({1, 1, 3}, {1, 1, 2}).value(); }

/// What norm_rope_pool leaves behind.
struct Result {
  TestTensor x, pooled;
};

Result run(TestTensor x, NormRopePoolArgs args) {
  const TilePlan plan = three_tokens();
  TestTensor pooled(x.dtype() == DType::kF64 ? DType::kF64 : DType::kF32, {1, kHeads, 2, kDim});
  args.x = x.view();
  args.plan = &plan;
  args.pooled = pooled.view();
  throw_if_error(norm_rope_pool(kReference, args));
  EXPECT_TRUE(x.guards_intact() && pooled.guards_intact());
  return {.x = std::move(x), .pooled = std::move(pooled)};
}

TestTensor tokens(DType dtype = DType::kF64) {
  return normal_tensor(dtype, {1, kHeads, 3, kDim}, 1);
}

double square_sum(const TestTensor& x, int64_t h, int64_t s) {
  double sum = 0.0;
  for (int64_t d = 0; d < kDim; ++d) sum += x.at(0, h, s, d) * x.at(0, h, s, d);
  return sum;
}

TEST(ReferenceNormRopePool, WithoutNormAndAnglesItIsPool) {
  const Result got = run(tokens(), {.x = {}, .norm = NormOver::kNothing});
  EXPECT_TRUE(same_bits(got.x, tokens()));
  EXPECT_TRUE(same_bits(got.pooled, run_pool(kReference, tokens(), three_tokens())));
}

TEST(ReferenceNormRopePool, NormOverAHeadOrOverAllOfThem) {
  const Result head = run(tokens(), {.x = {}, .norm = NormOver::kHead, .eps = 0.0F});
  const Result all = run(tokens(), {.x = {}, .norm = NormOver::kAllHeads, .eps = 0.0F});
  for (int64_t s = 0; s < 3; ++s) {
    EXPECT_NEAR(square_sum(head.x, 0, s), kDim, 1e-12);
    EXPECT_NEAR(square_sum(head.x, 1, s), kDim, 1e-12);
    EXPECT_NEAR(square_sum(all.x, 0, s) + square_sum(all.x, 1, s), kHeads * kDim, 1e-12);
    const double ratio = square_sum(tokens(), 0, s) / square_sum(tokens(), 1, s);
    EXPECT_NEAR(square_sum(all.x, 0, s) / square_sum(all.x, 1, s), ratio, 1e-12 * ratio);
  }
}

TEST(ReferenceNormRopePool, EpsIsAddedToTheMeanSquare) {
  const Result got =
      run(constant_tensor(DType::kF64, {1, kHeads, 3, kDim}, 3.0), {.x = {}, .eps = 16.0F});
  EXPECT_DOUBLE_EQ(got.x.at(0, 1, 2, 5), 3.0 / 5.0);  // sqrt(9 + 16)
}

TEST(ReferenceNormRopePool, WeightAndGivenRstdMultiply) {
  TestTensor weight(DType::kF64, {1, kHeads, 1, kDim});
  TestTensor rstd(DType::kF64, {1, 1, 3, 1});
  for (int64_t s = 0; s < 3; ++s) rstd.set_row(0, 0, s, static_cast<double>(s + 1));
  for (int64_t h = 0; h < kHeads; ++h) {
    for (int64_t d = 0; d < kDim; ++d) weight.set(0, h, 0, d, static_cast<double>(10 * h + d));
  }
  const Result got = run(constant_tensor(DType::kF64, {1, kHeads, 3, kDim}, 2.0),
                         {.x = {}, .weight = weight.view(), .rstd = rstd.view()});
  EXPECT_EQ(got.x.at(0, 1, 2, 5), 2.0 * 3.0 * 15.0);
  EXPECT_EQ(got.x.at(0, 0, 1, 7), 2.0 * 2.0 * 7.0);
  EXPECT_EQ(got.pooled.at(0, 1, 0, 5), 2.0 * 1.5 * 15.0);  // tokens 0 and 1
  EXPECT_EQ(got.pooled.at(0, 1, 1, 5), 2.0 * 3.0 * 15.0);  // token 2 alone
}

TEST(ReferenceNormRopePool, PairsOfNeighboursTurnByTheirAngle) {
  TestTensor cos(DType::kF64, {1, 1, 3, kDim / 2});
  TestTensor sin(DType::kF64, {1, 1, 3, kDim / 2});
  for (int64_t s = 0; s < 3; ++s) {
    for (int64_t j = 0; j < kDim / 2; ++j) {
      const bool quarter = s == 1 && j == 2;  // this pair alone turns, by 90 degrees
      cos.set(0, 0, s, j, quarter ? 0.0 : 1.0);
      sin.set(0, 0, s, j, quarter ? 1.0 : 0.0);
    }
  }
  const Result got =
      run(tokens(), {.x = {}, .norm = NormOver::kNothing, .cos = cos.view(), .sin = sin.view()});
  TestTensor want = tokens();
  for (int64_t h = 0; h < kHeads; ++h) {
    want.set(0, h, 1, 4, -tokens().at(0, h, 1, 5));
    want.set(0, h, 1, 5, tokens().at(0, h, 1, 4));
  }
  expect_close(got.x, want, exact());
  expect_close(got.pooled, run_pool(kReference, want, three_tokens()), exact());
}

TEST(ReferenceNormRopePool, PoolsWhatWasStored) {
  const Result got = run(tokens(DType::kBF16), {});
  expect_close(got.pooled, run_pool(kReference, got.x, three_tokens()), exact());
}

TEST(ReferenceNormRopePool, PositionsOfNoTileStay) {
  const std::vector<int32_t> lens{1, 2};
  const TilePlan plan = TilePlan::tiled(lens, 2).value();
  TestTensor x = normal_tensor(DType::kF64, {1, kHeads, 4, kDim}, 1);
  fill_padding(x, plan, std::nan(""));
  throw_if_error(norm_rope_pool(kReference, {.x = x.view(), .plan = &plan}));
  EXPECT_TRUE(std::isnan(x.at(0, 0, 1, 0)));
  EXPECT_FALSE(std::isnan(x.at(0, 0, 3, 0)));
}

TEST(ReferenceNormRopePool, WrongArgumentsAreNamed) {
  const TilePlan plan = three_tokens();
  const TestTensor row(DType::kF64, {1, kHeads, 1, kDim});
  const TestTensor angles(DType::kF64, {1, 1, 3, kDim / 2});
  const auto refused = [&](NormRopePoolArgs args, const std::string& text) {
    TestTensor x = tokens();
    args.x = x.view();
    args.plan = &plan;
    const Status status = norm_rope_pool(kReference, args);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find(text), std::string::npos) << status.message();
    EXPECT_TRUE(same_bits(x, tokens()));
  };
  refused({.x = {}, .norm = NormOver::kNothing, .weight = row.view()}, "] weight: expected none");
  refused({.x = {}, .norm = NormOver::kNothing, .rstd = row.view()}, "] rstd: expected none");
  refused({.x = {}, .norm = static_cast<NormOver>(3)},
          "] norm: expected kNothing, kHead or kAllHeads, got 3");
  refused({.x = {}, .eps = -1.0F}, "] eps: expected a finite number >= 0");
  refused({.x = {}, .eps = std::nanf("")}, "] eps: expected a finite number >= 0");
  refused({.x = {}, .rstd = row.view()}, "] rstd: expected");
  refused({.x = {}, .cos = angles.view()}, "] sin: expected both cos and sin");
  refused({.x = {}, .sin = angles.view()}, "] cos: expected both cos and sin");
  refused({.x = {}, .cos = row.view(), .sin = row.view()}, "] cos: expected");
}

}  // namespace
}  // namespace vsa::test
