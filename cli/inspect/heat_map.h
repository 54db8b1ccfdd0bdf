// Heat maps of tiles against tiles, as pictures. Host-only.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "runtime/video/image.h"
#include "vsa/tiling.h"

namespace vsa::cli {

/// 0 to 1 as black, violet, orange, pale yellow; its lightness only grows, so that it also reads in
/// grey. NaN is grey.
video::Rgb heat_colour(double x);

/// The values that the two ends of the colour scale stand for.
struct ColourScale {
  double least = 0.0, most = 1.0;
  std::string least_label, most_label;
};

/// From the least to the largest finite value, labelled with these numbers; 0 to 0 without any.
ColourScale scale_of(std::span<const float> values);

/// Rows of values: query tiles down, kv tiles across, both axes numbered. Every cell is at least
/// one pixel, small maps are enlarged to about 512.
struct HeatMap {
  std::string title;
  std::span<const float> values;  ///< [rows, columns]; one that is not finite is grey
  int64_t rows = 0, columns = 0;
  ColourScale scale;
};
video::Image heat_map(const HeatMap& map);

/// Where one query tile looks: one panel a tile frame, from left to right and top to bottom, in
/// each the tile's rows and columns. Colours follow the square root of the weight, so that small
/// ones can be told from none.
struct LookMap {
  std::string title;
  Grid tile_grid;                   ///< of k and v, in tiles
  std::span<const double> weights;  ///< [num_kv_tiles]: coarse probability
  std::span<const int32_t> kept;    ///< framed in white
  int64_t query_tile = -1;          ///< framed in green; -1: lies in another grid
};
video::Image look_map(const LookMap& map);

}  // namespace vsa::cli
