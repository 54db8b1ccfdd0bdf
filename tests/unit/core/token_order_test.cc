// Curves through a grid: known orders, and what every order must be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "vsa/tiling.h"

namespace vsa {
namespace {

constexpr TokenOrder kWhole = TokenOrder::kGilbert;
constexpr TokenOrder kFrames = TokenOrder::kGilbertFrames;

/// CRC-32 (IEEE 802.3) of the numbers as little-endian int32.
uint32_t crc32(const std::vector<int32_t>& numbers) {
  uint32_t crc = ~0U;
  for (const int32_t number : numbers) {
    for (int byte = 0; byte < 4; ++byte) {
      crc ^= static_cast<uint32_t>(number) >> (8 * byte) & 255U;
      for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1U) != 0 ? 0xedb88320U : 0U);
    }
  }
  return ~crc;
}

std::vector<int32_t> first(TokenOrder order, Grid grid, size_t count) {
  std::vector<int32_t> tokens = tokens_in_order(order, grid).value();
  tokens.resize(std::min(count, tokens.size()));
  return tokens;
}

TEST(TokenOrder, ChecksumsOfJengasCurves) {
  struct Known {
    TokenOrder order;
    Grid grid;
    uint32_t crc;
  };
  // Made by Jenga's own functions, commit 69051503.
  const Known all[] = {
      {kWhole, {4, 4, 4}, 0x83b248c7},     {kWhole, {2, 4, 6}, 0x5f15e5c0},
      {kFrames, {2, 3, 5}, 0xca074128},    {kFrames, {21, 30, 52}, 0xe437d18e},
      {kFrames, {21, 22, 39}, 0x98098a87}, {kFrames, {21, 45, 80}, 0xc83b0ece},
      {kWhole, {32, 45, 80}, 0x25618db9},  {kWhole, {32, 33, 60}, 0x36ccb705},
      {kWhole, {21, 30, 52}, 0x07932bec},
  };
  for (const Known& known : all) {
    EXPECT_EQ(crc32(tokens_in_order(known.order, known.grid).value()), known.crc)
        << name(known.order) << " " << known.grid.f << "," << known.grid.h << "," << known.grid.w;
  }
}

TEST(TokenOrder, FirstTokens) {
  EXPECT_THAT(first(kWhole, {4, 4, 4}, 16),
              testing::ElementsAre(0, 16, 17, 1, 5, 21, 20, 4, 8, 9, 13, 12, 28, 29, 25, 24));
  EXPECT_THAT(first(kFrames, {2, 3, 5}, 21),
              testing::ElementsAre(0, 5, 10, 11, 6, 1, 2, 3, 8, 7, 12, 13, 14, 9, 4, 19, 24, 29, 28,
                                   23, 18));
  EXPECT_THAT(first(TokenOrder::kRaster, {1, 2, 3}, 9), testing::ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(TokenOrder, EveryOrderVisitsEachTokenOnce) {
  for (const TokenOrder order : kTokenOrders) {
    for (const Grid grid : {Grid{1, 1, 1}, Grid{1, 1, 9}, Grid{9, 1, 1}, Grid{1, 9, 1},
                            Grid{2, 1, 7}, Grid{3, 5, 7}, Grid{7, 5, 3}, Grid{5, 11, 2}}) {
      std::vector<int32_t> tokens = tokens_in_order(order, grid).value();
      std::ranges::sort(tokens);
      std::vector<int32_t> all(static_cast<size_t>(grid.num_tokens()));
      std::iota(all.begin(), all.end(), 0);
      EXPECT_EQ(tokens, all) << name(order);
    }
  }
}

/// Tokens that do not lie beside the one before.
int64_t jumps(TokenOrder order, Grid grid) {
  const std::vector<int32_t> tokens = tokens_in_order(order, grid).value();
  int64_t count = 0;
  for (size_t i = 1; i < tokens.size(); ++i) {
    const auto place = [&](int32_t t) {
      return std::array{t / (grid.h * grid.w), t / grid.w % grid.h, t % grid.w};
    };
    const auto a = place(tokens[i - 1]);
    const auto b = place(tokens[i]);
    const int64_t distance = std::abs(a[0] - b[0]) + std::abs(a[1] - b[1]) + std::abs(a[2] - b[2]);
    count += distance == 1 ? 0 : 1;
  }
  return count;
}

TEST(TokenOrder, ACurveOfEvenExtentsGoesFromNeighbourToNeighbour) {
  for (const Grid grid : {Grid{4, 4, 4}, Grid{2, 4, 6}, Grid{8, 16, 32}, Grid{16, 6, 6}}) {
    EXPECT_EQ(jumps(kWhole, grid), 0);
  }
  // Odd extents leave few steps to a token that is no neighbour.
  EXPECT_EQ(jumps(kWhole, {32, 45, 80}), 208);
}

TEST(TokenOrder, NamesAreThere) {
  for (const TokenOrder order : kTokenOrders) {
    EXPECT_EQ(token_order_from_name(name(order)).value(), order);
  }
  const Status status = token_order_from_name("hilbert").status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "[token_order] order: expected raster, gilbert, gilbert-frames, got hilbert");
}

TEST(TokenOrder, RefusesGridsWithoutTokensOrWithTooMany) {
  for (const TokenOrder order : kTokenOrders) {
    for (const Grid grid : {Grid{0, 4, 4}, Grid{4, -1, 4}, Grid{4, 4, 0},
                            Grid{1 << 11, 1 << 10, 1 << 10}, Grid{INT64_MAX, INT64_MAX, 2}}) {
      const Status status = tokens_in_order(order, grid).status();
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
      EXPECT_THAT(status.message(), testing::StartsWith("[token_order] grid: expected"));
    }
  }
  const Status status = tokens_in_order(static_cast<TokenOrder>(7), {1, 1, 1}).status();
  EXPECT_THAT(status.message(), testing::StartsWith("[token_order] order: expected"));
}

}  // namespace
}  // namespace vsa
