// Masks of tiles: known numbers of neighbours, what each mask keeps, and unions.
#include "vsa/tile_mask.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace vsa {
namespace {

TilePlan curve(TokenOrder order, Grid grid) {
  return TilePlan::grid(grid, {.order = order, .tile = {2, 8, 8}}).value();
}

TEST(TileMask, AsManyNeighboursAsJengaFinds) {
  struct Known {
    TokenOrder order;
    Grid grid;
    int64_t tiles, least, most;
    double mean;  // to two digits
  };
  // Blocks of 128 tokens, by Jenga's own functions, commit 69051503.
  const Known all[] = {
      {TokenOrder::kGilbertFrames, {21, 30, 52}, 256, 6, 23, 13.52},
      {TokenOrder::kGilbertFrames, {21, 22, 39}, 141, 6, 16, 10.86},
      {TokenOrder::kGilbertFrames, {21, 45, 80}, 591, 6, 29, 16.29},
      {TokenOrder::kGilbert, {32, 33, 60}, 495, 5, 33, 17.25},
      {TokenOrder::kGilbert, {21, 30, 52}, 256, 5, 31, 17.08},
  };
  for (const Known& known : all) {
    const TileMask mask = TileMask::neighbours(curve(known.order, known.grid), known.grid).value();
    ASSERT_EQ(mask.num_q_tiles(), known.tiles);
    int64_t sum = 0;
    int64_t least = known.tiles;
    int64_t most = 0;
    for (int64_t t = 0; t < known.tiles; ++t) {
      sum += mask.count(t);
      least = std::min(least, mask.count(t));
      most = std::max(most, mask.count(t));
      for (int64_t other = 0; other < known.tiles; ++other) {
        ASSERT_EQ(mask.keeps(t, other), mask.keeps(other, t));
      }
      ASSERT_TRUE(mask.keeps(t, t));
    }
    EXPECT_EQ(least, known.least);
    EXPECT_EQ(most, known.most);
    EXPECT_NEAR(static_cast<double>(sum) / static_cast<double>(known.tiles), known.mean, 0.0051);
  }
}

TEST(TileMask, NeighboursOfACuboidAreThoseOfTheGridOfTiles) {
  const Grid grid{8, 12, 16};
  const TilePlan plan = TilePlan::grid(grid, {4, 4, 4}).value();
  const TileMask mask = TileMask::neighbours(plan, grid).value();
  for (int64_t i = 0; i < plan.num_tiles(); ++i) {
    for (int64_t j = 0; j < plan.num_tiles(); ++j) {
      const bool near = std::abs(i / 12 - j / 12) <= 1 && std::abs(i / 4 % 3 - j / 4 % 3) <= 1 &&
                        std::abs(i % 4 - j % 4) <= 1;
      EXPECT_EQ(mask.keeps(i, j), near) << i << " " << j;
    }
  }
}

TEST(TileMask, APrefixIsInNoMask) {
  const Grid grid{4, 4, 8};
  const std::vector<int64_t> segments{70};
  const TilePlan plan = TilePlan::packed(segments, grid, {.order = TokenOrder::kGilbert}).value();
  for (const auto& mask : {TileMask::neighbours(plan, grid), TileMask::first_frame(plan, grid),
                           TileMask::window(plan, grid, 100)}) {
    EXPECT_EQ(mask.value().count(0), 0);
    EXPECT_EQ(mask.value().count(1), 0);
    EXPECT_EQ(mask.value().count(2), 2);
  }
}

TEST(TileMask, FirstFrameAndWindow) {
  const Grid grid{8, 4, 8};  // tiles of 2x4x4: two to each pair of frames
  const TilePlan plan = TilePlan::grid(grid, {2, 4, 4}).value();
  const TileMask first = TileMask::first_frame(plan, grid).value();
  const TileMask same = TileMask::window(plan, grid, 0).value();
  const TileMask near = TileMask::window(plan, grid, 1).value();
  const TileMask all = TileMask::window(plan, grid, 5).value();
  for (int64_t i = 0; i < 8; ++i) {
    for (int64_t j = 0; j < 8; ++j) {
      EXPECT_EQ(first.keeps(i, j), i < 2 && j < 2);
      EXPECT_EQ(same.keeps(i, j), i / 2 == j / 2);
      EXPECT_EQ(near.keeps(i, j), std::abs(i / 2 - j / 2) <= 1);
      EXPECT_TRUE(all.keeps(i, j));
    }
  }
}

TEST(TileMask, AUnionContainsItsParts) {
  TileMask mask = TileMask::none(3, 5).value();
  mask.keep(0, 4);
  mask.keep(0, 1);
  TileMask other = TileMask::none(3, 5).value();
  other.keep(2, 0);
  ASSERT_TRUE(mask.add(other).ok());
  LutBuffer lut({.batch = 1, .num_heads = 2, .num_q_tiles = 3, .pitch = 2});
  const Lut rows = lut.view();
  const int32_t index[] = {1, 3, 2, -1, -1, -1, 0, 4, 3, -1, 0, 1};
  const int32_t count[] = {2, 1, 0, 2, 1, 2};
  std::ranges::copy(index, rows.index);
  std::ranges::copy(count, rows.count);
  LutBuffer united = mask.unite(rows).value();
  const Lut got = united.view();
  ASSERT_EQ(got.dims.pitch, 3);
  EXPECT_THAT(std::vector<int32_t>(got.index, got.index + 18),
              testing::ElementsAre(1, 3, 4, 2, -1, -1, 0, -1, -1,  // head 0
                                   0, 1, 4, 3, -1, -1, 0, 1, -1));
  EXPECT_THAT(std::vector<int32_t>(got.count, got.count + 6),
              testing::ElementsAre(3, 1, 1, 3, 1, 2));
}

TEST(TileMask, BadArgumentsAreNamed) {
  const auto refused = [](const Status& status, const std::string& text) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), testing::StartsWith("[tile_mask] " + text));
  };
  const TilePlan plan = TilePlan::grid({2, 4, 4}, {2, 4, 4}).value();
  refused(TileMask::neighbours(plan, {0, 4, 4}).status(), "grid: expected");
  refused(TileMask::first_frame(plan, {3, 4, 4}).status(), "plan: expected at least 48 positions");
  refused(TileMask::window(plan, {2, 4, 4}, -1).status(), "frames: expected at least 0");
  refused(TileMask::none(0, 4).status(), "num_q_tiles: expected");
  refused(TileMask::none(1 << 20, 1 << 20).status(), "num_q_tiles: expected");
  TileMask mask = TileMask::none(2, 3).value();
  refused(mask.add(TileMask::none(3, 2).value()), "other: expected [2,3], got [3,2]");
  refused(mask.unite({}).status(), "lut: expected a table with 2 query tiles");
  int32_t index[] = {0, 1, 2, 1};
  int32_t count[] = {2, 2};
  const ConstLut lut{index, count, {.batch = 1, .num_heads = 1, .num_q_tiles = 2, .pitch = 2}};
  refused(mask.unite(lut).status(), "lut: expected kv tiles below 3, ascending, got 1 after 2");
  index[3] = 3;
  refused(mask.unite(lut).status(), "lut: expected kv tiles below 3, ascending, got 3 after 2");
  count[0] = 3;
  refused(mask.unite(lut).status(), "lut: expected counts of 0 to 2, got 3");
}

}  // namespace
}  // namespace vsa
