// Tile plans from lists: the lengths of tiles, and the tokens in them. Host-only.
#include <fmt/format.h>

#include <vector>

#include "src/core/grid_check.h"
#include "vsa/tiling.h"

namespace vsa {
namespace {

Status check_tile_tokens(int64_t tile_tokens) {
  if (tile_tokens >= 1 && tile_tokens <= kMaxTileTokens) return {};
  return invalid_argument(fmt::format("[tile_plan] tile_tokens: expected 1 to {}, got {}",
                                      kMaxTileTokens, tile_tokens));
}

Status check_tile_len(size_t tile, int32_t len, int64_t tile_tokens) {
  if (len >= 0 && len <= tile_tokens) return {};
  return invalid_argument(
      fmt::format("[tile_plan] tile_len[{}]: expected 0 to {}, got {}", tile, tile_tokens, len));
}

}  // namespace

Result<TilePlan> TilePlan::tiled(std::span<const int32_t> tile_len, int64_t tile_tokens) {
  VSA_TRY(check_tile_tokens(tile_tokens));
  const auto num_tiles = static_cast<int64_t>(tile_len.size());
  if (num_tiles < 1 || num_tiles > kMaxTokens / tile_tokens) {
    return invalid_argument(fmt::format("[tile_plan] tile_len: expected 1 to {} tiles, got {}",
                                        kMaxTokens / tile_tokens, num_tiles));
  }
  TilePlan plan;
  plan.tile_tokens_ = tile_tokens;
  plan.seq_len_ = num_tiles * tile_tokens;
  for (int64_t t = 0; t < num_tiles; ++t) {
    const int32_t len = tile_len[static_cast<size_t>(t)];
    VSA_TRY(check_tile_len(static_cast<size_t>(t), len, tile_tokens));
    for (int32_t i = 0; i < len; ++i) {
      plan.tokens_.push_back(static_cast<int32_t>(t * tile_tokens + i));
    }
    plan.offsets_.push_back(static_cast<int64_t>(plan.tokens_.size()));
  }
  return plan;
}

Result<TilePlan> TilePlan::assigned(std::span<const int32_t> tokens,
                                    std::span<const int32_t> tile_len, int64_t tile_tokens) {
  VSA_TRY(check_tile_tokens(tile_tokens));
  if (tile_len.empty()) {
    return invalid_argument("[tile_plan] tile_len: expected at least 1 tile, got 0");
  }
  const auto num_tokens = static_cast<int64_t>(tokens.size());
  if (num_tokens > kMaxTokens || std::ssize(tile_len) > kMaxTokens / tile_tokens) {
    return invalid_argument(
        fmt::format("[tile_plan] tokens: expected at most {} tokens after padding, got {} in {} "
                    "tiles",
                    kMaxTokens, num_tokens, tile_len.size()));
  }
  int64_t sum = 0;
  for (size_t t = 0; t < tile_len.size(); ++t) {
    VSA_TRY(check_tile_len(t, tile_len[t], tile_tokens));
    sum += tile_len[t];
  }
  if (sum != num_tokens) {
    return invalid_argument(
        fmt::format("[tile_plan] tile_len: expected lengths that sum up to {}, the number of "
                    "tokens, got {}",
                    num_tokens, sum));
  }
  std::vector<bool> seen(tokens.size(), false);
  for (size_t i = 0; i < tokens.size(); ++i) {
    const int32_t token = tokens[i];
    if (token >= 0 && token < num_tokens && !seen[static_cast<size_t>(token)]) {
      seen[static_cast<size_t>(token)] = true;
      continue;
    }
    const bool again = token >= 0 && token < num_tokens;
    return invalid_argument(
        fmt::format("[tile_plan] tokens[{}]: expected each position of 0 to {} once, got {}{}", i,
                    num_tokens - 1, token, again ? " again" : ""));
  }
  TilePlan plan;
  plan.tile_tokens_ = tile_tokens;
  plan.seq_len_ = num_tokens;
  size_t first = 0;
  for (const int32_t len : tile_len) {
    plan.add_tile(tokens.subspan(first, static_cast<size_t>(len)));
    first += static_cast<size_t>(len);
  }
  return plan;
}

}  // namespace vsa
