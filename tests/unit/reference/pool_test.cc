// src/reference/pool.cc by hand, and its gradient.
#include "tests/unit/reference/reference_test.h"

namespace vsa::test {
namespace {

using Values = std::vector<double>;

TEST(ReferencePool, DividesByTheValidTokens) {
  const TestTensor x = rows_of({0, 1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_EQ(column(run_pool(kReference, x, small_plan())), (Values{2, 3.5, 6.5, 8}));
}

TEST(ReferencePool, AnEmptyTileGivesZeroAndTakesNoGradient) {
  const std::vector<int32_t> tile_len{2, 0};
  const TilePlan plan = TilePlan::tiled(tile_len, 2).value();
  const double nan = std::nan("");
  EXPECT_EQ(column(run_pool(kReference, rows_of({4, 8, nan, nan}), plan)), (Values{6, 0}));
  EXPECT_EQ(column(run_pool_backward(kReference, rows_of({6, 9}), plan, DType::kF64)),
            (Values{3, 3, 0, 0}));
}

TEST(ReferencePool, GradientMatchesDifferences) {
  TestTensor x = token_tensor(DType::kF64, {.batch = 2, .num_heads = 2}, small_plan(), 1);
  const TestTensor weights = normal_tensor(DType::kF64, {2, 2, 4, 8}, 2);
  expect_gradient(run_pool_backward(kReference, weights, small_plan(), DType::kF64), x,
                  [&] { return weighted_sum(run_pool(kReference, x, small_plan()), weights); });
}

}  // namespace
}  // namespace vsa::test
