// The cuboid that fits a grid best. Host-only.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "src/core/grid_check.h"
#include "vsa/tiling.h"

namespace vsa {
namespace {

/// Slots that tiles of these edges take in tile order.
int64_t padded_tokens(const Grid& g, const TileShape& t) {
  const auto along = [](int64_t extent, int64_t edge) { return (extent + edge - 1) / edge * edge; };
  return along(g.f, t.f) * along(g.h, t.h) * along(g.w, t.w);
}

/// Whether no edge is more than three times another, but for one that spans the grid.
bool is_even(const Grid& g, const TileShape& t) {
  const int64_t longest = std::max({t.f, t.h, t.w});
  const auto fits = [&](int64_t edge, int64_t extent) {
    return longest <= 3 * edge || edge == extent;
  };
  return fits(t.f, g.f) && fits(t.h, g.h) && fits(t.w, g.w);
}

/// Calls visit(tile) for each tile that may be chosen.
template <class Visit>
void for_each_tile(const Grid& g, int64_t max_tokens, const Visit& visit) {
  for (int64_t f = 1; f <= std::min(g.f, max_tokens); ++f) {
    for (int64_t h = 1; h <= std::min(g.h, max_tokens / f); ++h) {
      for (int64_t w = 1; w <= std::min(g.w, max_tokens / (f * h)); ++w) {
        const TileShape tile{.f = f, .h = h, .w = w};
        if (is_even(g, tile)) visit(tile);
      }
    }
  }
}

/// Tiles that come first are better; compared number by number.
auto rank(const Grid& g, const TileShape& t) {
  const auto [shortest, longest] = std::minmax({t.f, t.h, t.w});
  // The share of padding, padded / tokens, has the same denominator for all tiles of a grid. The
  // ratio of the edges is compared as whole numbers: edges are at most kMaxTileTokens.
  return std::tuple(padded_tokens(g, t), -t.num_tokens(),
                    longest * kMaxTileTokens * kMaxTileTokens / shortest, t.f, t.h);
}

}  // namespace

Result<TileShape> best_tile(Grid grid, int64_t max_tokens) {
  VSA_TRY(check_grid("best_tile", grid));
  if (max_tokens < 1 || max_tokens > kMaxTileTokens) {
    return invalid_argument(fmt::format("[best_tile] max_tokens: expected 1 to {}, got {}",
                                        kMaxTileTokens, max_tokens));
  }
  int64_t most = 0;
  for_each_tile(grid, max_tokens,
                [&](const TileShape& tile) { most = std::max(most, tile.num_tokens()); });
  // Smaller tiles waste less of tile order, but more of the blocks of max_tokens that kernels
  // compute with, and make longer lists.
  TileShape best{.f = 1, .h = 1, .w = 1};
  bool found = false;
  for_each_tile(grid, max_tokens, [&](const TileShape& tile) {
    if (4 * tile.num_tokens() < 3 * most) return;
    if (found && !(rank(grid, tile) < rank(grid, best))) return;
    best = tile;
    found = true;
  });
  return best;
}

}  // namespace vsa
