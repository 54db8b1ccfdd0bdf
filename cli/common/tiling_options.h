// --order and --tile: how a video is cut into tiles. Host-only.
#pragma once

#include <CLI/App.hpp>
#include <optional>
#include <string>

#include "vsa/tiling.h"

namespace vsa::cli {

struct TilingOptions {
  std::string order = "raster";
  // At most one of these, which --tile sets.
  std::optional<TileShape> tile;        ///< F,H,W
  std::optional<int64_t> best_tile_of;  ///< auto: best_tile of at most so many tokens
  std::optional<int64_t> curve_tokens;  ///< one number: the tokens of a tile along a curve

  /// @param tile_default  what the help shows as the default of --tile
  void add_to(CLI::App& command, const std::string& tile_default);

  bool tile_given() const { return tile || best_tile_of || curve_tokens; }
  TokenOrder token_order() const;
  /// Throws Failure(kUsage) if --tile does not fit --order.
  void check() const;
  /// The tile as the library takes it, which for a curve are edges with that product; nothing if
  /// it is not given, or depends on the grid.
  std::optional<TileShape> edges() const;
  /// How `grid` is cut; without --tile into tiles of 4x4x4, or along a curve of 64 tokens. Throws
  /// as check.
  Tiling on(const Grid& grid) const;
};

}  // namespace vsa::cli
