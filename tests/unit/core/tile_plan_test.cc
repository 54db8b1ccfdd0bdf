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

Result<TilePlan> assigned(const std::vector<int32_t>& tokens, const std::vector<int32_t>& lens,
                          int64_t tile_tokens = 4) {
  return TilePlan::assigned(tokens, lens, tile_tokens);
}

TEST(TilePlan, BadAssignments) {
  expect_refused(assigned({0, 1, 2}, {}), "tile_len: expected at least 1");
  expect_refused(assigned({0, 1, 2}, {2, 2}), "tile_len: expected lengths that sum up to 3");
  expect_refused(assigned({0, 1, 2}, {2}), "tile_len: expected lengths that sum up to 3");
  expect_refused(assigned({0, 1, 2, 3, 4}, {5}), "tile_len[0]: expected 0 to 4");
  expect_refused(assigned({0, 1, 2}, {4, -1}), "tile_len[1]: expected 0 to 4");
  expect_refused(assigned({0, 1, 3}, {2, 1}), "tokens[2]: expected each position of 0 to 2 once");
  expect_refused(assigned({0, -1, 2}, {2, 1}), "tokens[1]: expected each position of 0 to 2 once");
  expect_refused(assigned({1, 1, 0}, {2, 1}), "tokens[1]: expected each position of 0 to 2 once");
  for (const int64_t bad : {int64_t{0}, int64_t{-1}, int64_t{257}, kMax}) {
    expect_refused(assigned({0}, {1}, bad), "tile_tokens: expected");
  }
  EXPECT_TRUE(assigned({}, {0, 0}).ok()) << "no token at all";
}

TEST(TilePlan, BadCurves) {
  for (const TokenOrder order : {TokenOrder::kGilbert, TokenOrder::kGilbertFrames}) {
    expect_refused(TilePlan::grid({0, 4, 4}, {.order = order}), "grid: expected");
    expect_refused(TilePlan::grid({4, 4, 4}, {.order = order, .tile = {3, 5, 4}}),
                   "tile_shape: expected 64 or 128 tokens a tile in the order gilbert");
    expect_refused(TilePlan::grid({4, 4, 4}, {.order = order, .tile = {0, 5, 4}}),
                   "tile_shape: expected three edges");
  }
  expect_refused(TilePlan::grid({4, 4, 4}, {.order = static_cast<TokenOrder>(9)}),
                 "order: expected 0 to 2, got 9");
}

TEST(TilePlan, BadSegments) {
  const std::vector<int64_t> negative{3, -1}, huge{kMax};
  expect_refused(TilePlan::packed(negative, {2, 2, 2}, {2, 2, 2}), "segment_lens: expected");
  expect_refused(TilePlan::packed(huge, {2, 2, 2}, {2, 2, 2}), "segment_lens: expected");
}

}  // namespace
}  // namespace vsa
