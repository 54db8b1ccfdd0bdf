// Heat maps of tiles against tiles, as pictures. Host-only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/video/image.h"
#include "vsa/tiling.h"

namespace vsa::cli {

/// 0 to 1 as black, violet, orange, pale yellow; its lightness only grows, so that it also reads in
/// grey. NaN is grey.
video::Rgb heat_colour(double x);

/// Rows of values, the least as 0 and the largest as 1; every cell at least one pixel, small maps
/// enlarged to about 512.
video::Image heat_map(std::span<const float> values, int64_t rows, int64_t columns);

/// Where one query tile looks: one panel a tile frame, from left to right and top to bottom, in
/// each the tile's rows and columns. Colours follow the square root of the weight, so that small
/// ones can be told from none.
struct LookMap {
  Grid tile_grid;                   ///< of k and v, in tiles
  std::span<const double> weights;  ///< [num_kv_tiles]: coarse probability
  std::span<const int32_t> kept;    ///< framed in white
  int64_t query_tile = -1;          ///< framed in green; -1: lies in another grid
};
video::Image look_map(const LookMap& map);

}  // namespace vsa::cli
