// src/reference/coarse.cc by hand, and its gradients.
#include <limits>

#include "tests/unit/reference/reference_test.h"

namespace vsa::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

TilePlan plan_of(const std::vector<int32_t>& tile_len) {
  return TilePlan::tiled(tile_len, 4).value();
}

TEST(ReferenceCoarse, W15_IsASoftmaxOverTilesWhateverTheirSize) {
  // q.k = 8 * 1 * k, so scale 1/8 gives scores 0 and log 3: weights 1/4 and 3/4.
  const CoarseResult r = run_coarse(kReference, rows_of({1}), rows_of({0, std::log(3.0)}),
                                    rows_of({4, 8}), plan_of({4, 1}), 0.125F);
  EXPECT_EQ(r.scores.at(0, 0, 0, 0), 0.0);
  EXPECT_DOUBLE_EQ(r.scores.at(0, 0, 0, 1), std::log(3.0));
  EXPECT_DOUBLE_EQ(r.out.at(0, 0, 0, 0), 7.0);
}

TEST(ReferenceCoarse, AnEmptyTileScoresMinusInfinityAndWeighsNothing) {
  const CoarseResult r = run_coarse(kReference, rows_of({1}), rows_of({0, 5, std::log(3.0)}),
                                    rows_of({4, 100, 8}), plan_of({4, 0, 1}), 0.125F);
  EXPECT_EQ(r.scores.at(0, 0, 0, 1), -kInf);
  EXPECT_DOUBLE_EQ(r.out.at(0, 0, 0, 0), 7.0);
}

TEST(ReferenceCoarse, WithoutAnyTokenOutIsZero) {
  const CoarseResult r =
      run_coarse(kReference, rows_of({1}), rows_of({1, 2}), rows_of({3, 4}), plan_of({0, 0}));
  EXPECT_EQ(r.scores.at(0, 0, 0, 1), -kInf);
  EXPECT_EQ(r.out.at(0, 0, 0, 0), 0.0);
}

TEST(ReferenceCoarse, DefaultScaleIsOneOverTheRootOfHeadDim) {
  const CoarseResult r =
      run_coarse(kReference, rows_of({1}, 64), rows_of({1}, 64), rows_of({1}, 64), plan_of({1}));
  EXPECT_EQ(r.scores.at(0, 0, 0, 0), 8.0);  // 64 / 8
}

TEST(ReferenceCoarse, RoundsEveryStepToBf16IfAsked) {
  // bf16 has 8 bits. q: 1 + 2^-9 becomes 1. q.k = 8 * k: 8 * 1.0078125 stays, times 0.3F is
  // 2.4187500961 and becomes 2.421875; the other score is 8 * 0.3F = 2.4000000954, becomes 2.40625.
  const double second = 1.0078125;
  const CoarseResult r = run_coarse(
      kReference, rows_of({1.0 + std::ldexp(1.0, -9)}), rows_of({1.0, second}),
      rows_of({1.0, 3.0 + std::ldexp(1.0, -9)}), plan_of({4, 4}), 0.3F, CoarseRounding::kBf16);
  EXPECT_EQ(r.scores.at(0, 0, 0, 0), 2.40625);
  EXPECT_EQ(r.scores.at(0, 0, 0, 1), 2.421875);
  // 1 / (1 + exp(+-0.015625)) = 0.496094, 0.503906: both are bf16 numbers after rounding to
  // multiples of 2^-9 and 2^-8; out = 0.49609375 * 1 + 0.50390625 * 3 = 2.0078125, becomes 2.
  EXPECT_EQ(r.out.at(0, 0, 0, 0), 2.0);
}

TEST(ReferenceCoarse, RoundedProbabilitiesNeedNotAddUp) {
  // Scores 0 and 0.84765625 give 0.29992 and 0.70008: in bf16 154 / 512 and 179 / 256. Where the
  // exact ones give 7 * 0.29992 - 3 * 0.70008 = -0.0008, these give 2^-7.
  const CoarseResult r =
      run_coarse(kReference, rows_of({1}), rows_of({0, 0.84765625}), rows_of({7, -3}),
                 plan_of({4, 4}), 0.125F, CoarseRounding::kBf16);
  EXPECT_EQ(r.out.at(0, 0, 0, 0), 0.0078125);
}

TEST(ReferenceCoarse, GradientsMatchDifferences) {
  Qkv in{.q = normal_tensor(DType::kF64, {2, 4, 3, 8}, 1),
         .k = normal_tensor(DType::kF64, {2, 2, 4, 8}, 2),
         .v = normal_tensor(DType::kF64, {2, 2, 4, 8}, 3),
         .q_plan = plan_of({4, 4, 4}),
         .kv_plan = plan_of({4, 0, 2, 1})};
  const TestTensor weights = normal_tensor(DType::kF64, {2, 4, 3, 8}, 4);
  const auto loss = [&] {
    return weighted_sum(run_coarse(kReference, in.q, in.k, in.v, in.kv_plan).out, weights);
  };
  const Gradients analytic = run_coarse_backward(kReference, in, weights);
  expect_gradient(analytic.dq, in.q, loss);
  expect_gradient(analytic.dk, in.k, loss);
  expect_gradient(analytic.dv, in.v, loss);
}

}  // namespace
}  // namespace vsa::test
