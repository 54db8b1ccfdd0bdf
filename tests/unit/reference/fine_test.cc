// src/reference/fine.cc by hand, and its gradients.
#include <limits>

#include "tests/unit/reference/reference_test.h"

namespace vsa::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

/// One query tile with one token, three kv tiles of 2, 0 and 1 tokens, scale 1/8.
Qkv small() {
  const std::vector<int32_t> q_len{1};
  const std::vector<int32_t> kv_len{2, 0, 1};
  const double nan = std::nan("");
  return {.q = rows_of({1, nan}),
          .k = rows_of({0, std::log(3.0), nan, nan, std::log(4.0), nan}),
          .v = rows_of({4, 8, nan, nan, 10, nan}),
          .q_plan = TilePlan::tiled(q_len, 2).value(),
          .kv_plan = TilePlan::tiled(kv_len, 2).value(),
          .scale = 0.125F};
}

TEST(ReferenceFine, AttendsToTheTokensOfKeptTilesOnly) {
  const FineResult first = run_fine(kReference, small(), lut_of_rows(1, 1, {{0}}).view());
  EXPECT_DOUBLE_EQ(first.out.at(0, 0, 0, 0), 7.0);  // weights 1/4 and 3/4
  EXPECT_DOUBLE_EQ(first.lse.at(0, 0, 0, 0), std::log(4.0));

  const FineResult last = run_fine(kReference, small(), lut_of_rows(1, 1, {{1, 2}}).view());
  EXPECT_DOUBLE_EQ(last.out.at(0, 0, 0, 0), 10.0);
  EXPECT_DOUBLE_EQ(last.lse.at(0, 0, 0, 0), std::log(4.0));

  const FineResult all = run_fine(kReference, small(), lut_of_rows(1, 1, {{0, 1, 2}}).view());
  EXPECT_DOUBLE_EQ(all.out.at(0, 0, 0, 0), 8.5);  // weights 1/8, 3/8, 4/8
  EXPECT_DOUBLE_EQ(all.lse.at(0, 0, 0, 0), std::log(8.0));
  EXPECT_EQ(all.out.at(0, 0, 1, 0), 0.0) << "padding";
  EXPECT_EQ(all.lse.at(0, 0, 1, 0), 0.0) << "padding";
}

TEST(ReferenceFine, WithoutKeysOutIsZeroAndLseMinusInfinity) {
  for (const std::vector<int32_t>& row : {std::vector<int32_t>{}, std::vector<int32_t>{1}}) {
    const FineResult r = run_fine(kReference, small(), lut_of_rows(1, 1, {row}).view());
    EXPECT_EQ(r.out.at(0, 0, 0, 0), 0.0);
    EXPECT_EQ(r.lse.at(0, 0, 0, 0), -kInf);
  }
}

TEST(ReferenceFine, LargeScoresDoNotOverflow) {
  Qkv in = small();
  in.scale = 1000.0F;
  const FineResult r = run_fine(kReference, in, lut_of_rows(1, 1, {{0, 2}}).view());
  EXPECT_DOUBLE_EQ(r.out.at(0, 0, 0, 0), 10.0);
  EXPECT_DOUBLE_EQ(r.lse.at(0, 0, 0, 0), 8000.0 * std::log(4.0));
}

TEST(ReferenceFine, GradientsMatchDifferences) {
  const Heads heads{.batch = 1, .num_heads = 2, .num_kv_heads = 1};
  const TilePlan q_plan = TilePlan::grid({1, 3, 3}, {1, 2, 2}).value();
  const std::vector<int32_t> kv_len{4, 0, 3};
  Qkv in = make_qkv(DType::kF64, heads, q_plan, TilePlan::tiled(kv_len, 4).value(), 1);
  const LutBuffer lut = random_lut(heads, q_plan.num_tiles(), 3, 4);
  const TestTensor weights = token_tensor(DType::kF64, heads, q_plan, 5);
  const auto loss = [&] { return weighted_sum(run_fine(kReference, in, lut.view()).out, weights); };
  const Gradients analytic =
      run_fine_backward(kReference, in, lut.view(), run_fine(kReference, in, lut.view()), weights);
  expect_gradient(analytic.dq, in.q, loss);
  expect_gradient(analytic.dk, in.k, loss);
  expect_gradient(analytic.dv, in.v, loss);
}

}  // namespace
}  // namespace vsa::test
