// Tile plans refuse what they cannot describe.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "vsa/tiling.h"

namespace vsa {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

void expect_refused(const Result<TilePlan>& plan, const std::string& argument) {
  ASSERT_FALSE(plan.ok()) << argument;
  EXPECT_EQ(plan.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(plan.status().message(), testing::StartsWith("[tile_plan] " + argument));
}

TEST(TilePlan, BadGrids) {
  for (const int64_t bad : {int64_t{0}, int64_t{-1}, -kMax - 1, kMax, int64_t{1} << 31}) {
    expect_refused(TilePlan::grid({bad, 2, 2}, {2, 2, 2}), "grid: expected");
    expect_refused(TilePlan::grid({2, bad, 2}, {2, 2, 2}), "grid: expected");
    expect_refused(TilePlan::grid({2, 2, bad}, {2, 2, 2}), "grid: expected");
  }
  expect_refused(TilePlan::grid({1 << 16, 1 << 16, 1}, {1, 1, 1}), "grid: expected at most");
  // 2^31 - 1 tokens, but more with padding.
  expect_refused(TilePlan::grid({1, 1, (int64_t{1} << 31) - 1}, {1, 1, 2}),
                 "grid: expected at most");
}

TEST(TilePlan, BadTileShapes) {
  for (const int64_t bad : {int64_t{0}, int64_t{-1}, -kMax - 1, kMax, int64_t{65}}) {
    expect_refused(TilePlan::grid({8, 8, 8}, {bad, 2, 2}), "tile_shape: expected");
    expect_refused(TilePlan::grid({8, 8, 8}, {2, 2, bad}), "tile_shape: expected");
  }
  EXPECT_TRUE(TilePlan::grid({8, 8, 8}, {4, 8, 8}).ok()) << "256 tokens";
  EXPECT_TRUE(TilePlan::grid({1, 1, 1}, {4, 4, 4}).ok()) << "one tile of one token";
}

TEST(TilePlan, BadTileLengths) {
  const std::vector<int32_t> none, negative{4, -1}, long_one{4, 9}, right{0, 8};
  expect_refused(TilePlan::tiled(none, 8), "tile_len: expected");
  expect_refused(TilePlan::tiled(negative, 8), "tile_len[1]: expected");
  expect_refused(TilePlan::tiled(long_one, 8), "tile_len[1]: expected");
  for (const int64_t bad : {int64_t{0}, int64_t{-1}, int64_t{257}, kMax}) {
    expect_refused(TilePlan::tiled(right, bad), "tile_tokens: expected");
  }
}

TEST(TilePlan, BadSegments) {
  const std::vector<int64_t> negative{3, -1}, huge{kMax};
  expect_refused(TilePlan::packed(negative, {2, 2, 2}, {2, 2, 2}), "segment_lens: expected");
  expect_refused(TilePlan::packed(huge, {2, 2, 2}, {2, 2, 2}), "segment_lens: expected");
}

}  // namespace
}  // namespace vsa
