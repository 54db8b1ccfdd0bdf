// The rule from sparsity to top-k.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "vsa/tiling.h"

namespace vsa {
namespace {

TEST(TopkRule, T05_DoubleRounding) {
  EXPECT_EQ(topk_from_sparsity(0.95, 20).value(), 2);
  EXPECT_EQ(topk_from_sparsity(0.9, 10).value(), 1);
  EXPECT_EQ(topk_from_sparsity(0.9, 624).value(), 63);
}

TEST(TopkRule, T04_OutOfRange) {
  EXPECT_EQ(topk_from_sparsity(1.0, 624).value(), 1);
  EXPECT_EQ(topk_from_sparsity(-0.01, 624).value(), 624);
  EXPECT_EQ(topk_from_sparsity(1e300, 624).value(), 1);
  EXPECT_EQ(topk_from_sparsity(-1e300, 624).value(), 624);
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(topk_from_sparsity(bad, 624).status().code(), StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(topk_from_sparsity(0.5, 0).status().code(), StatusCode::kInvalidArgument);
}

TEST(TopkRule, T03_CountsTilesOfThePaddedGrid) {
  const TilePlan plan = TilePlan::grid({5, 32, 32}, {4, 4, 4}).value();
  EXPECT_EQ(plan.num_tiles(), 128);
  EXPECT_EQ(topk_from_sparsity(0.75, plan.num_tiles()).value(), 32);
}

}  // namespace
}  // namespace vsa
