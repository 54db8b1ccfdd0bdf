// Which tokens form a tile: grids, tile shapes, and the plan that lists every tile's tokens.
// Host-only.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
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

/// The order in which the tokens of a video are cut into tiles.
enum class TokenOrder : int {
  kRaster = 0,  ///< "raster": cuboids of a TileShape, in raster order over the grid of tiles
  /// "gilbert": the generalised Hilbert curve through the whole video, which visits neighbours one
  /// after the other; a tile is a run of tokens on the curve
  kGilbert = 1,
  /// "gilbert-frames": such a curve through each frame, one frame after the other; each begins near
  /// the place where the one before ended
  kGilbertFrames = 2,
};
inline constexpr std::array kTokenOrders = {TokenOrder::kRaster, TokenOrder::kGilbert,
                                            TokenOrder::kGilbertFrames};
/// "raster", "gilbert" or "gilbert-frames".
std::string_view name(TokenOrder order);
/// @return InvalidArgument for any other name
Result<TokenOrder> token_order_from_name(std::string_view name);

/// The tokens that a tile along a curve may have: kernels compute with blocks of 64 tokens, and
/// AITER and CK Tile with blocks of 128.
inline constexpr std::array<int64_t, 2> kCurveTileTokens = {64, 128};

/// How a video is cut into tiles.
struct Tiling {
  TokenOrder order = TokenOrder::kRaster;
  /// kRaster: edges. Along a curve only their product counts, one of kCurveTileTokens.
  TileShape tile{};
  bool operator==(const Tiling&) const = default;
};

/// The positions in raster order of all tokens of the grid, in that order.
/// Cost: 4 bytes and a few operations a token.
/// @return InvalidArgument for an empty grid, or one of more than 2^31 - 1 tokens
Result<std::vector<int32_t>> tokens_in_order(TokenOrder order, Grid grid);

/// A partition of the sequence axis into tiles of at most tile_tokens tokens: for each tile the
/// positions of its valid tokens on that axis. Every stage takes one, so the same code serves
/// raster order, curves, tile order and packed sequences. Immutable; cheap to move; 4 bytes per
/// token.
///
/// Cuboids are numbered in raster order over the tile grid, and the tokens inside a cuboid in
/// raster order; along a curve, tiles and tokens are numbered as the curve visits them. Valid
/// tokens come first: "slot" s of tile t, s < tile_len(t), is position tokens(t)[s].
class TilePlan {
 public:
  /// Raster-order sequence of `grid`, cut into `tile` cuboids; tiles at the far edges are partial.
  /// @return InvalidArgument if an extent is < 1, the tile exceeds kMaxTileTokens, or the grid
  ///         (padded) exceeds 2^31 - 1 tokens.
  static Result<TilePlan> grid(Grid grid, TileShape tile);

  /// Raster-order sequence of `grid`, cut by any Tiling. Along a curve all tiles but the last are
  /// full.
  /// @return InvalidArgument as above, or along a curve if a tile does not have one of
  ///         kCurveTileTokens
  static Result<TilePlan> grid(Grid grid, const Tiling& tiling);

  /// Any assignment of the tokens of a sequence to tiles: tile t has the next tile_len[t] of
  /// `tokens`, in this order, at most tile_tokens.
  /// @param tokens    positions on the sequence axis: each of 0 to tokens.size() - 1 once
  /// @param tile_len  they sum up to tokens.size()
  /// @return InvalidArgument naming what is wrong
  static Result<TilePlan> assigned(std::span<const int32_t> tokens,
                                   std::span<const int32_t> tile_len, int64_t tile_tokens);

  /// Tile-order sequence: tile t occupies slots [t * tile_tokens, (t + 1) * tile_tokens), of which
  /// the first tile_len[t] (0 to tile_tokens) are valid and the rest padding that is never read.
  static Result<TilePlan> tiled(std::span<const int32_t> tile_len, int64_t tile_tokens);

  /// Packed sequence [segment 0 | segment 1 | ... | video in raster order]. Segments (text,
  /// condition, audio) are cut into chunks of the tile's token count that never straddle two
  /// segments; an empty segment makes no tile. Prefix tiles come first: num_prefix_tiles() of them.
  static Result<TilePlan> packed(std::span<const int64_t> segment_lens, Grid grid, TileShape tile);
  /// The same with any Tiling of the video.
  static Result<TilePlan> packed(std::span<const int64_t> segment_lens, Grid grid,
                                 const Tiling& tiling);

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
  /// Positions of the valid tokens of all tiles, tile after tile.
  std::span<const int32_t> tokens() const { return tokens_; }
  /// Extent of the part of the sequence that is cut into cuboids, which follows the prefix
  /// segments; all zero if there is none: along a curve, in tile order, of any assignment.
  Grid video_grid() const { return grid_; }
  /// Edges of those cuboids; all zero if there are none.
  TileShape video_tile() const { return tile_; }
  /// Whether the tokens of each tile are consecutive positions, as in tile order. Backends need no
  /// table of indices then.
  bool tiles_are_runs() const { return tiles_are_runs_; }
  /// The plan of the same tiles once stage `tile` has brought them into tile order.
  TilePlan in_tile_order() const;
  /// The plan of the same tiles once their tokens stand one after the other, tile after tile, with
  /// no padding between: token i of that sequence is position tokens()[i] of this plan's.
  TilePlan in_compact_order() const;

 private:
  TilePlan() = default;
  /// The positions from `first` to `end`, as tiles of tile_tokens_, the last one shorter.
  void add_runs(int64_t first, int64_t end);
  void add_tile(std::span<const int32_t> tokens);
  void add_cuboids(int64_t base, Grid grid, TileShape tile);
  std::vector<int64_t> offsets_{0};  // [num_tiles + 1] into tokens_
  std::vector<int32_t> tokens_;      // [num_valid_tokens]
  int64_t seq_len_ = 0;
  int64_t tile_tokens_ = 0;
  int64_t num_prefix_tiles_ = 0;
  bool tiles_are_runs_ = true;
  Grid grid_{.f = 0, .h = 0, .w = 0};
  TileShape tile_{.f = 0, .h = 0, .w = 0};
};

/// The cuboid that fits a grid best: of those with at least three quarters of the tokens of the
/// largest, the one whose tiles leave the least of tile order as padding; of equal ones the
/// largest, then the one with the most even edges, then the one that is shorter along f, then along
/// h. No edge exceeds the grid's or three times another edge; only an edge as long as the grid's
/// may be shorter than that.
/// @param max_tokens  of a tile, 1 to kMaxTileTokens; kernels compute with blocks of 64 tokens
/// @return InvalidArgument for an empty grid or such a max_tokens
Result<TileShape> best_tile(Grid grid, int64_t max_tokens);

/// The number of kv tiles that a sparsity keeps, as FastVideo computes it:
/// max(1, min(ceil((1 - sparsity) * num_kv_tiles), num_kv_tiles)) in double, where num_kv_tiles
/// counts the tiles of the padded grid. A sparsity <= 0 keeps all, >= 1 keeps one.
/// @return InvalidArgument if sparsity is NaN or infinite, or num_kv_tiles < 1.
Result<int64_t> topk_from_sparsity(double sparsity, int64_t num_kv_tiles);

}  // namespace vsa
