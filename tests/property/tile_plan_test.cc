// Properties of tile plans and of the stages that move tokens: tile, untile, pool.
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "tests/support/backends.h"
#include "tests/support/compare.h"
#include "tests/support/problem.h"

namespace vsa::test {
namespace {

class Tiles : public BackendTest {};
VSA_FOR_EACH_BACKEND(Tiles);

/// A random grid of up to 9 tokens an axis, cut into cuboids of up to 6 or along a curve.
TilePlan random_plan() {
  const auto extent = [](int64_t max) { return *rc::gen::inRange<int64_t>(1, max + 1); };
  const Grid grid{extent(9), extent(9), extent(9)};
  Tiling tiling{.order = *rc::gen::elementOf(
                    std::vector<TokenOrder>(kTokenOrders.begin(), kTokenOrders.end()))};
  if (tiling.order == TokenOrder::kRaster) tiling.tile = {extent(6), extent(6), extent(6)};
  return TilePlan::grid(grid, tiling).value();
}

/// The positions of all tiles, in tile order.
std::vector<int32_t> all_tokens(const TilePlan& plan) {
  std::vector<int32_t> all;
  for (int64_t t = 0; t < plan.num_tiles(); ++t) {
    const auto tokens = plan.tokens(t);
    all.insert(all.end(), tokens.begin(), tokens.end());
  }
  return all;
}

TEST(TilePlanProperty, IsABijectionOfTheGrid) {
  const bool held = rc::check([] {
    const TilePlan plan = random_plan();
    std::vector<int32_t> all = all_tokens(plan);
    RC_ASSERT(static_cast<int64_t>(all.size()) == plan.seq_len());
    RC_ASSERT(plan.num_valid_tokens() == plan.seq_len());
    std::ranges::sort(all);
    for (size_t i = 0; i < all.size(); ++i) RC_ASSERT(all[i] == static_cast<int32_t>(i));
  });
  EXPECT_TRUE(held);
}

TEST(TilePlanProperty, NeighboursInATileAreNeighboursInTheGrid) {
  // Token (f, h, w) belongs to tile (f / 4, h / 4, w / 4): stated once more, without the plan.
  const Grid g{5, 6, 7};
  const TilePlan plan = TilePlan::grid(g, {4, 4, 4}).value();
  for (int64_t t = 0; t < plan.num_tiles(); ++t) {
    for (const int32_t s : plan.tokens(t)) {
      const int64_t f = s / (g.h * g.w), h = s / g.w % g.h, w = s % g.w;
      EXPECT_EQ(((f / 4) * 2 + h / 4) * 2 + w / 4, t) << "token " << s;
    }
  }
}

/// How many tiles have each number of tokens.
std::map<int32_t, int64_t> histogram(const TilePlan& plan) {
  std::map<int32_t, int64_t> counts;
  for (int64_t t = 0; t < plan.num_tiles(); ++t) ++counts[plan.tile_len(t)];
  return counts;
}

TEST(TilePlanProperty, T02_GridsThatTilesDoNotDivide) {
  const TilePlan wan = TilePlan::grid({21, 30, 52}, {4, 4, 4}).value();
  EXPECT_EQ(wan.num_tiles(), 624);
  EXPECT_EQ(wan.num_valid_tokens(), 32760);
  const std::map<int32_t, int64_t> want{{64, 455}, {32, 65}, {16, 91}, {8, 13}};
  EXPECT_EQ(histogram(wan), want);
  EXPECT_EQ(TilePlan::grid({21, 30, 52}, {4, 8, 8}).value().num_tiles(), 168);
  const TilePlan large = TilePlan::grid({21, 45, 80}, {4, 4, 4}).value();
  EXPECT_EQ(large.num_tiles(), 1440);
  EXPECT_EQ(large.num_valid_tokens(), 75600);
}

TEST(TilePlanProperty, TilesAlongACurveAreFullButTheLast) {
  for (const TokenOrder order : {TokenOrder::kGilbert, TokenOrder::kGilbertFrames}) {
    const TilePlan wan = TilePlan::grid({21, 30, 52}, {.order = order}).value();
    const std::map<int32_t, int64_t> want{{64, 511}, {56, 1}};
    EXPECT_EQ(histogram(wan), want);
    EXPECT_EQ(wan.tile_len(511), 56);
    EXPECT_EQ(wan.video_grid().num_tokens(), 0) << "kernels must not take these for cuboids";
    EXPECT_FALSE(wan.tiles_are_runs());
    const Tiling wide{.order = order, .tile = {2, 8, 8}};
    EXPECT_EQ(TilePlan::grid({21, 30, 52}, wide).value().num_tiles(), 256);
  }
}

TEST(TilePlanProperty, ACurveStartsBehindThePrefix) {
  const std::vector<int64_t> segments{77};
  const Grid grid{5, 6, 7};
  const TilePlan plan = TilePlan::packed(segments, grid, {.order = TokenOrder::kGilbert}).value();
  const TilePlan alone = TilePlan::grid(grid, {.order = TokenOrder::kGilbert}).value();
  ASSERT_EQ(plan.num_prefix_tiles(), 2);
  ASSERT_EQ(plan.num_tiles(), 2 + alone.num_tiles());
  for (int64_t t = 0; t < alone.num_tiles(); ++t) {
    ASSERT_EQ(plan.tile_len(2 + t), alone.tile_len(t));
    for (size_t slot = 0; slot < alone.tokens(t).size(); ++slot) {
      EXPECT_EQ(plan.tokens(2 + t)[slot], 77 + alone.tokens(t)[slot]);
    }
  }
}

TEST(TilePlanProperty, CompactOrderHasTheSameTilesWithoutPadding) {
  const bool held = rc::check([] {
    const TilePlan plan = random_plan();
    const TilePlan compact = plan.in_compact_order();
    RC_ASSERT(compact.tiles_are_runs());
    RC_ASSERT(compact.seq_len() == plan.num_valid_tokens());
    RC_ASSERT(compact.num_tiles() == plan.num_tiles());
    RC_ASSERT(compact.tile_tokens() == plan.tile_tokens());
    const std::vector<int32_t> all = all_tokens(plan);
    RC_ASSERT(std::ranges::equal(plan.tokens(), all));
    for (int64_t t = 0; t < plan.num_tiles(); ++t) {
      RC_ASSERT(compact.tile_len(t) == plan.tile_len(t));
      for (size_t slot = 0; slot < plan.tokens(t).size(); ++slot) {
        RC_ASSERT(all[static_cast<size_t>(compact.tokens(t)[slot])] == plan.tokens(t)[slot]);
      }
    }
  });
  EXPECT_TRUE(held);
}

TEST(TilePlanProperty, AnAssignmentOfAPlansTokensIsThatPlan) {
  const bool held = rc::check([] {
    const TilePlan plan = random_plan();
    std::vector<int32_t> lens;
    for (int64_t t = 0; t < plan.num_tiles(); ++t) lens.push_back(plan.tile_len(t));
    const TilePlan same = TilePlan::assigned(plan.tokens(), lens, plan.tile_tokens()).value();
    RC_ASSERT(same.seq_len() == plan.seq_len());
    RC_ASSERT(same.padded_len() == plan.padded_len());
    RC_ASSERT(same.tiles_are_runs() == plan.tiles_are_runs());
    for (int64_t t = 0; t < plan.num_tiles(); ++t) {
      RC_ASSERT(std::ranges::equal(same.tokens(t), plan.tokens(t)));
    }
  });
  EXPECT_TRUE(held);
}

TEST(TilePlanProperty, RunsAreTold) {
  const std::vector<int32_t> lens{2, 2};
  const auto plan = [&](const std::vector<int32_t>& tokens) {
    return TilePlan::assigned(tokens, lens, 2).value();
  };
  EXPECT_TRUE(plan({2, 3, 0, 1}).tiles_are_runs());
  EXPECT_FALSE(plan({2, 3, 1, 0}).tiles_are_runs());
  EXPECT_FALSE(plan({0, 2, 1, 3}).tiles_are_runs());
  EXPECT_TRUE(TilePlan::grid({2, 2, 8}, {1, 1, 4}).value().tiles_are_runs());
  EXPECT_FALSE(TilePlan::grid({2, 2, 8}, {1, 2, 4}).value().tiles_are_runs());
}

TEST(TilePlanProperty, T10_LongVideo) {
  const TilePlan plan = TilePlan::grid({41, 68, 120}, {4, 4, 4}).value();
  EXPECT_EQ(plan.num_tiles(), 5610);
  EXPECT_EQ(topk_from_sparsity(0.9, plan.num_tiles()).value(), 561);
}

TEST(TilePlanProperty, T43_TilesNeverStraddleSegments) {
  const std::vector<int64_t> segments{77, 0, 130};
  const TilePlan plan = TilePlan::packed(segments, {5, 6, 7}, {4, 4, 4}).value();
  EXPECT_EQ(plan.num_prefix_tiles(), 2 + 0 + 3);
  EXPECT_EQ(plan.num_tiles(), 5 + 8);
  EXPECT_EQ(plan.seq_len(), 77 + 130 + 210);
  const std::vector<int32_t> prefix_lens{64, 13, 64, 64, 2};
  for (size_t t = 0; t < prefix_lens.size(); ++t) {
    EXPECT_EQ(plan.tile_len(static_cast<int64_t>(t)), prefix_lens[t]);
  }
  std::vector<int32_t> all = all_tokens(plan);
  std::ranges::sort(all);
  std::vector<int32_t> want(static_cast<size_t>(plan.seq_len()));
  std::iota(want.begin(), want.end(), 0);
  EXPECT_EQ(all, want);
}

TEST_P(Tiles, UntileOfTileIsTheIdentity) {
  VSA_NEEDS(tile);
  const bool held = rc::check([this] {
    const TilePlan plan = random_plan();
    const DType dtype = *rc::gen::element(DType::kF32, DType::kBF16, DType::kF16);
    const Order order = *rc::gen::elementOf(std::vector<Order>(kAllOrders, kAllOrders + 4));
    const TestTensor x = token_tensor(dtype, {2, 3, 3, 8}, plan, 1, order);
    const TestTensor tiled = run_tile(context(), x, plan);
    RC_ASSERT(same_bits(run_untile(context(), tiled, plan).view(), x.view()));
    // Every valid slot holds its token, every other slot 0.
    for (int64_t t = 0; t < plan.num_tiles(); ++t) {
      for (int64_t slot = 0; slot < plan.tile_tokens(); ++slot) {
        const double want =
            slot < plan.tile_len(t) ? x.at(1, 2, plan.tokens(t)[static_cast<size_t>(slot)], 5) : 0;
        RC_ASSERT(tiled.at(1, 2, t * plan.tile_tokens() + slot, 5) == want);
      }
    }
  });
  EXPECT_TRUE(held);
}

TEST_P(Tiles, T01_GridOf32FramesComesBack) {
  VSA_NEEDS(tile);
  const TilePlan plan = TilePlan::grid({32, 30, 52}, {4, 4, 4}).value();
  EXPECT_EQ(plan.num_tiles(), 832);
  EXPECT_EQ(plan.padded_len(), 53248);
  EXPECT_EQ(plan.num_valid_tokens(), 49920);
  const TestTensor x = token_tensor(DType::kBF16, {1, 1, 1, 8}, plan, 3);
  const TestTensor back = run_untile(context(), run_tile(context(), x, plan), plan);
  EXPECT_TRUE(same_bits(back.view(), x.view()));
}

TEST_P(Tiles, TileOrderGivesTheSameMeans) {
  VSA_NEEDS(pool);
  VSA_NEEDS(tile);
  const TilePlan plan = TilePlan::grid({5, 6, 7}, {4, 4, 4}).value();
  const TestTensor x = token_tensor(DType::kF32, {2, 2, 2, 24}, plan, 4);
  TestTensor tiled = run_tile(context(), x, plan);
  fill_padding(tiled, plan.in_tile_order(), std::nan(""));
  EXPECT_TRUE(same_bits(run_pool(context(), tiled, plan.in_tile_order()).view(),
                        run_pool(context(), x, plan).view()));
}

TEST_P(Tiles, T18_MeansDivideByTheValidCount) {
  VSA_NEEDS(pool);
  const std::vector<int32_t> lens{3, 0, 64, 1};
  const TilePlan plan = TilePlan::tiled(lens, 64).value();
  for (const double padding : {1e4, std::nan("")}) {
    TestTensor x = constant_tensor(DType::kF32, {1, 1, plan.seq_len(), 8}, 2.5);
    fill_padding(x, plan, padding);
    const TestTensor pooled = run_pool(context(), x, plan);
    for (int64_t t = 0; t < 4; ++t) EXPECT_EQ(pooled.at(0, 0, t, 7), t == 1 ? 0.0 : 2.5);
  }
}

}  // namespace
}  // namespace vsa::test
