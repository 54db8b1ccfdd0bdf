// Builds tile plans: which token of the sequence axis sits in which slot of which tile. Host-only.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "src/core/grid_check.h"
#include "vsa/tiling.h"

namespace vsa {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

Status check_tile_shape(const TileShape& t) {
  if (t.f < 1 || t.h < 1 || t.w < 1) {
    return invalid_argument(fmt::format(
        "[tile_plan] tile_shape: expected three edges of at least 1, got {},{},{}", t.f, t.h, t.w));
  }
  const int64_t tile_tokens = bounded_product(t.f, t.h, t.w);
  if (tile_tokens >= 0 && tile_tokens <= kMaxTileTokens) return {};
  return invalid_argument(
      fmt::format("[tile_plan] tile_shape: expected at most {} tokens a tile, got {},{},{}",
                  kMaxTileTokens, t.f, t.h, t.w));
}

Status check(const Grid& g, const Tiling& tiling) {
  VSA_TRY(check_grid("tile_plan", g));
  const TileShape& t = tiling.tile;
  VSA_TRY(check_tile_shape(t));
  if (std::ranges::find(kTokenOrders, tiling.order) == kTokenOrders.end()) {
    return invalid_argument(fmt::format("[tile_plan] order: expected 0 to {}, got {}",
                                        std::ssize(kTokenOrders) - 1,
                                        static_cast<int>(tiling.order)));
  }
  if (tiling.order != TokenOrder::kRaster) {
    if (std::ranges::find(kCurveTileTokens, t.num_tokens()) != kCurveTileTokens.end()) return {};
    return invalid_argument(
        fmt::format("[tile_plan] tile_shape: expected {} tokens a tile in the order {}, got {}",
                    fmt::join(kCurveTileTokens, " or "), name(tiling.order), t.num_tokens()));
  }
  // The extents are bounded already, so the padded product stays below 2^63.
  if (bounded_product(ceil_div(g.f, t.f) * t.f, ceil_div(g.h, t.h) * t.h,
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

void TilePlan::add_tile(std::span<const int32_t> tokens) {
  for (size_t i = 1; i < tokens.size(); ++i) {
    tiles_are_runs_ = tiles_are_runs_ && tokens[i] == tokens[i - 1] + 1;
  }
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  offsets_.push_back(static_cast<int64_t>(tokens_.size()));
}

void TilePlan::add_runs(int64_t first, int64_t end) {
  for (; first < end; first += tile_tokens_) {
    for (int64_t i = first; i < std::min(first + tile_tokens_, end); ++i) {
      tokens_.push_back(static_cast<int32_t>(i));
    }
    offsets_.push_back(static_cast<int64_t>(tokens_.size()));
  }
}

void TilePlan::add_cuboids(int64_t base, Grid grid, TileShape tile) {
  grid_ = grid;
  tile_ = tile;
  std::vector<int32_t> tokens;
  for (int64_t tf = 0; tf < ceil_div(grid.f, tile.f); ++tf) {
    for (int64_t th = 0; th < ceil_div(grid.h, tile.h); ++th) {
      for (int64_t tw = 0; tw < ceil_div(grid.w, tile.w); ++tw) {
        tokens.clear();
        for_each_token(grid, tile, tf, th, tw, [&](int64_t f, int64_t h, int64_t w) {
          tokens.push_back(static_cast<int32_t>(base + (f * grid.h + h) * grid.w + w));
        });
        add_tile(tokens);
      }
    }
  }
}

Result<TilePlan> TilePlan::grid(Grid grid, TileShape tile) {
  return packed({}, grid, Tiling{.tile = tile});
}
Result<TilePlan> TilePlan::grid(Grid grid, const Tiling& tiling) {
  return packed({}, grid, tiling);
}
Result<TilePlan> TilePlan::packed(std::span<const int64_t> segment_lens, Grid grid,
                                  TileShape tile) {
  return packed(segment_lens, grid, Tiling{.tile = tile});
}

Result<TilePlan> TilePlan::packed(std::span<const int64_t> segment_lens, Grid grid,
                                  const Tiling& tiling) {
  VSA_TRY(check(grid, tiling));
  TilePlan plan;
  plan.tile_tokens_ = tiling.tile.num_tokens();
  int64_t next = 0;
  for (const int64_t len : segment_lens) {
    if (len < 0 || len > kMaxTokens - next - grid.num_tokens()) {
      return invalid_argument(fmt::format(
          "[tile_plan] segment_lens: expected lengths of at least 0 and at most {} tokens in all, "
          "got a segment of {}",
          kMaxTokens, len));
    }
    plan.add_runs(next, next + len);
    next += len;
  }
  plan.num_prefix_tiles_ = plan.num_tiles();
  plan.seq_len_ = next + grid.num_tokens();
  plan.tokens_.reserve(static_cast<size_t>(plan.seq_len_));
  if (tiling.order == TokenOrder::kRaster) {
    plan.add_cuboids(next, grid, tiling.tile);
    return plan;
  }
  Result<std::vector<int32_t>> on_curve = tokens_in_order(tiling.order, grid);
  VSA_TRY(on_curve.status());
  for (int32_t& token : *on_curve) token += static_cast<int32_t>(next);
  const std::span<const int32_t> tokens(*on_curve);
  const auto step = static_cast<size_t>(plan.tile_tokens_);
  for (size_t first = 0; first < tokens.size(); first += step) {
    plan.add_tile(tokens.subspan(first, std::min(step, tokens.size() - first)));
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

TilePlan TilePlan::in_compact_order() const {
  TilePlan plan;
  plan.tile_tokens_ = tile_tokens_;
  plan.num_prefix_tiles_ = num_prefix_tiles_;
  plan.seq_len_ = num_valid_tokens();
  plan.offsets_ = offsets_;
  plan.tokens_.resize(tokens_.size());
  std::iota(plan.tokens_.begin(), plan.tokens_.end(), 0);
  return plan;
}

}  // namespace vsa
