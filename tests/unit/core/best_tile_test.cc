// The cuboid that fits a grid best, compared with a search that is written once more.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "vsa/tiling.h"

namespace vsa {
namespace {

TileShape best(Grid grid, int64_t max_tokens = 64) { return best_tile(grid, max_tokens).value(); }

TEST(BestTile, KnownGrids) {
  EXPECT_EQ(best({21, 30, 52}), (TileShape{3, 5, 4})) << "Wan at 480p: no padding at all";
  EXPECT_EQ(best({16, 16, 16}), (TileShape{4, 4, 4}));
  EXPECT_EQ(best({1, 32, 32}), (TileShape{1, 8, 8})) << "one frame: the edge spans the grid";
  EXPECT_EQ(best({2, 3, 3}), (TileShape{2, 3, 3})) << "one tile is the grid";
  EXPECT_EQ(best({1, 1, 1}), (TileShape{1, 1, 1}));
  EXPECT_EQ(best({16, 16, 16}, 128).num_tokens(), 128);
}

TEST(BestTile, NoTileOfItsSizeLeavesLessPadding) {
  for (const Grid grid : {Grid{21, 31, 53}, Grid{21, 45, 80}, Grid{5, 6, 7}, Grid{13, 17, 19}}) {
    for (const int64_t max_tokens : {int64_t{64}, int64_t{128}}) {
      const TileShape tile = best(grid, max_tokens);
      EXPECT_LE(tile.num_tokens(), max_tokens);
      const auto padding = [&](const TileShape& t) {
        const TilePlan plan = TilePlan::grid(grid, t).value();
        return plan.padded_len() - plan.num_valid_tokens();
      };
      const int64_t least = padding(tile);
      for (int64_t f = 2; f <= std::min<int64_t>(grid.f, 6); ++f) {
        for (int64_t h = 2; h <= std::min<int64_t>(grid.h, 6); ++h) {
          for (int64_t w = 2; w <= std::min<int64_t>(grid.w, 6); ++w) {
            const TileShape other{f, h, w};
            if (other.num_tokens() > max_tokens || 4 * other.num_tokens() < 3 * max_tokens)
              continue;
            EXPECT_GE(padding(other), least) << f << "," << h << "," << w;
          }
        }
      }
    }
  }
}

TEST(BestTile, RefusesEmptyGridsAndSizes) {
  for (const Grid grid : {Grid{0, 4, 4}, Grid{4, 4, -4}}) {
    EXPECT_THAT(best_tile(grid, 64).status().message(),
                testing::StartsWith("[best_tile] grid: expected"));
  }
  for (const int64_t bad : {int64_t{0}, int64_t{-1}, int64_t{257}, INT64_MAX}) {
    EXPECT_THAT(best_tile({4, 4, 4}, bad).status().message(),
                testing::StartsWith("[best_tile] max_tokens: expected"));
  }
}

}  // namespace
}  // namespace vsa
