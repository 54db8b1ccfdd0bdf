// Builds tile plans: which token of the sequence axis sits in which slot of which tile. Host-only.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "vsa/tiling.h"

namespace vsa {
namespace {

constexpr int64_t kMaxTokens = std::numeric_limits<int32_t>::max();

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// a * b * c, or -1 if it exceeds kMaxTokens. All factors are >= 1.
int64_t bounded_product(int64_t a, int64_t b, int64_t c) {
  if (a > kMaxTokens / b) return -1;
  if (a * b > kMaxTokens / c) return -1;
  return a * b * c;
}

Status check(const Grid& g, const TileShape& t) {
  if (g.f < 1 || g.h < 1 || g.w < 1) {
    return invalid_argument(fmt::format(
        "[tile_plan] grid: expected three extents of at least 1, got {},{},{}", g.f, g.h, g.w));
  }
  if (t.f < 1 || t.h < 1 || t.w < 1) {
    return invalid_argument(fmt::format(
        "[tile_plan] tile_shape: expected three edges of at least 1, got {},{},{}", t.f, t.h, t.w));
  }
  const int64_t tile_tokens = bounded_product(t.f, t.h, t.w);
  if (tile_tokens < 0 || tile_tokens > kMaxTileTokens) {
    return invalid_argument(
        fmt::format("[tile_plan] tile_shape: expected at most {} tokens a tile, got {},{},{}",
                    kMaxTileTokens, t.f, t.h, t.w));
  }
  // Bounding each extent first keeps the padded product below 2^63.
  if (std::max({g.f, g.h, g.w}) > kMaxTokens ||
      bounded_product(ceil_div(g.f, t.f) * t.f, ceil_div(g.h, t.h) * t.h,
                      ceil_div(g.w, t.w) * t.w) < 0) {
    return invalid_argument(
        fmt::format("[tile_plan] grid: expected at most {} tokens after padding, got {},{},{}",
                    kMaxTokens, g.f, g.h, g.w));
  }
  return {};
}

/// Calls visit(f, h, w) for the valid tokens of tile (tf, th, tw), in raster order.
template <class Visit>
void for_each_token(const Grid& g, const TileShape& t, int64_t tf, int64_t th, int64_t tw,
                    const Visit& visit) {
  for (int64_t f = tf * t.f; f < std::min((tf + 1) * t.f, g.f); ++f) {
    for (int64_t h = th * t.h; h < std::min((th + 1) * t.h, g.h); ++h) {
      for (int64_t w = tw * t.w; w < std::min((tw + 1) * t.w, g.w); ++w) visit(f, h, w);
    }
  }
}

}  // namespace

Result<TilePlan> TilePlan::grid(Grid grid, TileShape tile) { return packed({}, grid, tile); }

Result<TilePlan> TilePlan::packed(std::span<const int64_t> segment_lens, Grid grid,
                                  TileShape tile) {
  VSA_TRY(check(grid, tile));
  TilePlan plan;
  plan.tile_tokens_ = tile.num_tokens();
  plan.grid_ = grid;
  plan.tile_ = tile;
  int64_t next = 0;
  for (const int64_t len : segment_lens) {
    if (len < 0 || len > kMaxTokens - next - grid.num_tokens()) {
      return invalid_argument(fmt::format(
          "[tile_plan] segment_lens: expected lengths of at least 0 and at most {} tokens in all, "
          "got a segment of {}",
          kMaxTokens, len));
    }
    for (int64_t done = 0; done < len; done += plan.tile_tokens_) {
      const int64_t end = next + std::min(done + plan.tile_tokens_, len);
      for (int64_t i = next + done; i < end; ++i) plan.tokens_.push_back(static_cast<int32_t>(i));
      plan.offsets_.push_back(static_cast<int64_t>(plan.tokens_.size()));
    }
    next += len;
  }
  plan.num_prefix_tiles_ = plan.num_tiles();
  plan.tokens_.reserve(static_cast<size_t>(next + grid.num_tokens()));
  for (int64_t tf = 0; tf < ceil_div(grid.f, tile.f); ++tf) {
    for (int64_t th = 0; th < ceil_div(grid.h, tile.h); ++th) {
      for (int64_t tw = 0; tw < ceil_div(grid.w, tile.w); ++tw) {
        for_each_token(grid, tile, tf, th, tw, [&](int64_t f, int64_t h, int64_t w) {
          plan.tokens_.push_back(static_cast<int32_t>(next + (f * grid.h + h) * grid.w + w));
        });
        plan.offsets_.push_back(static_cast<int64_t>(plan.tokens_.size()));
      }
    }
  }
  plan.seq_len_ = next + grid.num_tokens();
  return plan;
}

Result<TilePlan> TilePlan::tiled(std::span<const int32_t> tile_len, int64_t tile_tokens) {
  if (tile_tokens < 1 || tile_tokens > kMaxTileTokens) {
    return invalid_argument(fmt::format("[tile_plan] tile_tokens: expected 1 to {}, got {}",
                                        kMaxTileTokens, tile_tokens));
  }
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
    if (len < 0 || len > tile_tokens) {
      return invalid_argument(
          fmt::format("[tile_plan] tile_len[{}]: expected 0 to {}, got {}", t, tile_tokens, len));
    }
    for (int32_t i = 0; i < len; ++i) {
      plan.tokens_.push_back(static_cast<int32_t>(t * tile_tokens + i));
    }
    plan.offsets_.push_back(static_cast<int64_t>(plan.tokens_.size()));
  }
  return plan;
}

TilePlan TilePlan::in_tile_order() const {
  TilePlan plan;
  plan.tile_tokens_ = tile_tokens_;
  plan.num_prefix_tiles_ = num_prefix_tiles_;
  plan.seq_len_ = padded_len();
  plan.offsets_ = offsets_;
  plan.tokens_.reserve(tokens_.size());
  for (int64_t t = 0; t < num_tiles(); ++t) {
    for (int32_t i = 0; i < tile_len(t); ++i) {
      plan.tokens_.push_back(static_cast<int32_t>(t * tile_tokens_ + i));
    }
  }
  return plan;
}

}  // namespace vsa
