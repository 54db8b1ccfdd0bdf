// Blocks and plan images: every token in exactly one block, in the order of the plan.
#include "src/cuda/plan/block.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <numeric>
#include <vector>

#include "src/cuda/plan/plan.h"
#include "src/cuda/select/select_key.h"

namespace vsa::cuda {
namespace {

std::vector<TilePlan> plans() {
  std::vector<TilePlan> all;
  const TileShape shapes[] = {{4, 4, 4}, {2, 8, 8}, {4, 8, 8}, {1, 16, 16}, {8, 4, 4},
                              {4, 4, 8}, {3, 9, 9}, {3, 5, 2}, {1, 1, 1},   {1, 1, 256},
                              {2, 9, 9}, {4, 9, 5}, {5, 5, 9}, {1, 2, 97},  {16, 4, 4}};
  const Grid grids[] = {{5, 6, 7}, {8, 8, 8}, {1, 1, 1}, {4, 17, 18}, {9, 3, 300}};
  const std::vector<int64_t> segments{77, 0, 130};
  for (const TileShape& shape : shapes) {
    for (const Grid& grid : grids) {
      all.push_back(TilePlan::grid(grid, shape).value());
      all.push_back(TilePlan::packed(segments, grid, shape).value());
    }
  }
  for (const int64_t tile_tokens : {1, 7, 64, 65, 100, 128, 200, 256}) {
    std::vector<int32_t> lens;
    for (int32_t t = 0; t < 9; ++t) {
      lens.push_back(t % 3 == 0 ? static_cast<int32_t>(tile_tokens)
                                : (t * 37) % (static_cast<int32_t>(tile_tokens) + 1));
    }
    all.push_back(TilePlan::tiled(lens, tile_tokens).value());
    all.push_back(all.back().in_compact_order());
    std::vector<int32_t> tokens(static_cast<size_t>(all.back().seq_len()));
    std::iota(tokens.rbegin(), tokens.rend(), 0);
    all.push_back(TilePlan::assigned(tokens, lens, tile_tokens).value());
  }
  for (const Grid& grid : grids) {
    all.push_back(TilePlan::grid(grid, {.order = TokenOrder::kGilbert}).value());
    const Tiling wide{.order = TokenOrder::kGilbertFrames, .tile = {2, 8, 8}};
    all.push_back(TilePlan::packed(segments, grid, wide).value());
    all.push_back(all.back().in_compact_order());
  }
  return all;
}

/// As kernels see it: with its table, here in host memory.
PlanImage image_of(const TilePlan& plan) {
  PlanImage image = plan_image("test", plan).value();
  if (!image.tokens.empty()) image.shape.tokens = image.tokens.data();
  return image;
}

Block block_of(const PlanImage& image, int32_t tile, int32_t s) {
  const Run run = tile < image.shape.num_runs ? image.runs[static_cast<size_t>(tile)] : Run{};
  return make_block(image.shape, tile, s, run);
}

TEST(Block, BlocksOfATileAreItsTokensInOrder) {
  for (const TilePlan& plan : plans()) {
    const PlanImage image = image_of(plan);
    ASSERT_EQ(image.shape.num_tiles, plan.num_tiles());
    for (int32_t tile = 0; tile < image.shape.num_tiles; ++tile) {
      std::vector<int32_t> positions;
      for (int32_t s = 0; s < image.shape.blocks_per_tile; ++s) {
        const Block block = block_of(image, tile, s);
        ASSERT_LE(block.len(), kBlockTokens);
        ASSERT_LE(block.len(), block.rows());
        for (int32_t r = 0; r < block.len(); ++r) {
          positions.push_back(position_of(image.shape, block, r));
        }
      }
      const auto want = plan.tokens(tile);
      ASSERT_EQ(positions, std::vector<int32_t>(want.begin(), want.end())) << "tile " << tile;
    }
  }
}

/// In tile order every position is a row of some block, so that padding gets written.
TEST(Block, RowsOfTileOrderCoverThePadding) {
  for (const TilePlan& plan : plans()) {
    const PlanImage image = image_of(plan);
    if (image.shape.runs_are_padded == 0) continue;
    std::vector<int> seen(static_cast<size_t>(plan.seq_len()), 0);
    for (int32_t tile = 0; tile < image.shape.num_tiles; ++tile) {
      for (int32_t s = 0; s < image.shape.blocks_per_tile; ++s) {
        const Block block = block_of(image, tile, s);
        for (int32_t r = 0; r < block.rows(); ++r) {
          ++seen[static_cast<size_t>(position_of(image.shape, block, r))];
        }
      }
    }
    EXPECT_EQ(seen, std::vector<int>(seen.size(), 1));
  }
}

TEST(PlanImage, RefusesMoreBlocksThanAnEntryNames) {
  // Tiles of a prime length are cut into blocks of one token each.
  const auto image = [](int64_t num_tiles) {
    return plan_image("fine", TilePlan::grid({num_tiles, 1, 1}, {1, 1, 251}).value());
  };
  constexpr int64_t kMostTiles = ((int64_t{1} << 28) - 1) / 251;
  EXPECT_TRUE(image(kMostTiles).ok());
  const Status status = image(kMostTiles + 1).status();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_EQ(status.message(),
            "[fine] plan: expected fewer than 2^28 blocks of 64 tokens on the cuda backend, got "
            "1069464 tiles of 251 blocks");
}

TEST(SelectKey, IsTheOrderOfScores) {
  const float inf = std::numeric_limits<float>::infinity();
  const float ascending[] = {-inf, -3e38F, -1.0F, -1e-40F, 0.0F, 1e-40F, 1.0F, 3e38F, inf};
  const auto key = [](float x) { return select_key(std::bit_cast<uint32_t>(x)); };
  for (size_t i = 1; i < std::size(ascending); ++i) {
    EXPECT_LT(key(ascending[i - 1]), key(ascending[i])) << ascending[i];
  }
  EXPECT_EQ(key(-0.0F), key(0.0F));
  EXPECT_LT(key(std::numeric_limits<float>::quiet_NaN()), key(-inf));
  EXPECT_EQ(key(-std::numeric_limits<float>::quiet_NaN()),
            key(std::numeric_limits<float>::quiet_NaN()));
  EXPECT_LT(key(inf), kForcedKey);
}

}  // namespace
}  // namespace vsa::cuda
