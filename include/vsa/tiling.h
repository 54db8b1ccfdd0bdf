// Which tokens form a tile: grids, tile shapes, and the plan that lists every tile's tokens.
// Host-only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "vsa/status.h"

namespace vsa {

inline constexpr int64_t kMaxTileTokens = 256;

/// Extent of a video in tokens (frames, rows, columns) after patchify. Raster order: f slowest, w
/// fastest.
struct Grid {
  int64_t f = 1;
  int64_t h = 1;
  int64_t w = 1;
  int64_t num_tokens() const { return f * h * w; }
  bool operator==(const Grid&) const = default;
};

/// Edges of a tile in tokens; the product is at most kMaxTileTokens.
struct TileShape {
  int64_t f = 4;
  int64_t h = 4;
  int64_t w = 4;
  int64_t num_tokens() const { return f * h * w; }
  bool operator==(const TileShape&) const = default;
};

/// A partition of the sequence axis into tiles of at most tile_tokens tokens: for each tile the
/// positions of its valid tokens on that axis. Every stage takes one, so the same code serves
/// raster order, tile order and packed sequences. Immutable; cheap to move; 4 bytes per token.
///
/// Tiles are numbered in raster order over the tile grid, tokens inside a tile in raster order,
/// valid tokens first: "slot" s of tile t, s < tile_len(t), is position tokens(t)[s].
class TilePlan {
 public:
  /// Raster-order sequence of `grid`, cut into `tile` cuboids; tiles at the far edges are partial.
  /// @return InvalidArgument if an extent is < 1, the tile exceeds kMaxTileTokens, or the grid
  ///         (padded) exceeds 2^31 - 1 tokens.
  static Result<TilePlan> grid(Grid grid, TileShape tile);

  /// Tile-order sequence: tile t occupies slots [t * tile_tokens, (t + 1) * tile_tokens), of which
  /// the first tile_len[t] (0 to tile_tokens) are valid and the rest padding that is never read.
  static Result<TilePlan> tiled(std::span<const int32_t> tile_len, int64_t tile_tokens);

  /// Packed sequence [segment 0 | segment 1 | ... | video in raster order]. Segments (text,
  /// condition, audio) are cut into chunks of the tile's token count that never straddle two
  /// segments; an empty segment makes no tile. Prefix tiles come first: num_prefix_tiles() of them.
  static Result<TilePlan> packed(std::span<const int64_t> segment_lens, Grid grid, TileShape tile);

  int64_t num_tiles() const { return static_cast<int64_t>(offsets_.size()) - 1; }
  int64_t num_prefix_tiles() const { return num_prefix_tiles_; }
  int64_t tile_tokens() const { return tile_tokens_; }
  /// Length of the sequence axis this plan addresses (for `tiled`, padding included).
  int64_t seq_len() const { return seq_len_; }
  /// Tokens in all tiles together.
  int64_t num_valid_tokens() const { return static_cast<int64_t>(tokens_.size()); }
  /// num_tiles * tile_tokens: the length of the same sequence in (padded) tile order.
  int64_t padded_len() const { return num_tiles() * tile_tokens_; }

  int32_t tile_len(int64_t tile) const {
    return static_cast<int32_t>(offsets_[static_cast<size_t>(tile) + 1] -
                                offsets_[static_cast<size_t>(tile)]);
  }
  /// Positions on the sequence axis of the tile's valid tokens, in slot order.
  std::span<const int32_t> tokens(int64_t tile) const {
    return {tokens_.data() + offsets_[static_cast<size_t>(tile)],
            static_cast<size_t>(tile_len(tile))};
  }
  /// Extent of the video part of the sequence, which follows the prefix segments; all zero in a
  /// plan of tile order, whose tiles are runs of positions.
  Grid video_grid() const { return grid_; }
  /// Edges of the video part's tiles; all zero in a plan of tile order.
  TileShape video_tile() const { return tile_; }
  /// The plan of the same tiles once stage `tile` has brought them into tile order.
  TilePlan in_tile_order() const;

 private:
  TilePlan() = default;
  std::vector<int64_t> offsets_{0};  // [num_tiles + 1] into tokens_
  std::vector<int32_t> tokens_;      // [num_valid_tokens]
  int64_t seq_len_ = 0;
  int64_t tile_tokens_ = 0;
  int64_t num_prefix_tiles_ = 0;
  Grid grid_{.f = 0, .h = 0, .w = 0};
  TileShape tile_{.f = 0, .h = 0, .w = 0};
};

/// The number of kv tiles that a sparsity keeps, as FastVideo computes it:
/// max(1, min(ceil((1 - sparsity) * num_kv_tiles), num_kv_tiles)) in double, where num_kv_tiles
/// counts the tiles of the padded grid. A sparsity <= 0 keeps all, >= 1 keeps one.
/// @return InvalidArgument if sparsity is NaN or infinite, or num_kv_tiles < 1.
Result<int64_t> topk_from_sparsity(double sparsity, int64_t num_kv_tiles);

}  // namespace vsa
