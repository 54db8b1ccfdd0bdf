#include "cli/heat_map.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace vsa::cli {
namespace {

constexpr int64_t kTargetEdge = 512;
constexpr video::Rgb kGrey{96, 96, 96};
constexpr video::Rgb kWhite{255, 255, 255};
constexpr video::Rgb kGreen{64, 220, 96};

struct Position {
  int64_t y = 0, x = 0;
};

/// A frame of `width` pixels just inside a square cell.
void frame_cell(video::Image& image, Position at, int64_t cell, int64_t width, video::Rgb colour) {
  image.fill(at.y, at.x, width, cell, colour);
  image.fill(at.y + cell - width, at.x, width, cell, colour);
  image.fill(at.y, at.x, cell, width, colour);
  image.fill(at.y, at.x + cell - width, cell, width, colour);
}

}  // namespace

video::Rgb heat_colour(double x) {
  if (!std::isfinite(x)) return kGrey;
  // Five stops, evenly spaced, interpolated in sRGB.
  constexpr std::array<std::array<double, 3>, 5> kStops{
      {{0, 0, 4}, {81, 18, 124}, {183, 55, 121}, {252, 137, 97}, {252, 253, 191}}};
  const double at = std::clamp(x, 0.0, 1.0) * 4.0;
  const auto low = std::min<size_t>(static_cast<size_t>(at), 3);
  const double share = at - static_cast<double>(low);
  video::Rgb colour{};
  for (size_t c = 0; c < 3; ++c) {
    colour[c] = static_cast<uint8_t>(
        std::lround(kStops[low][c] + share * (kStops[low + 1][c] - kStops[low][c])));
  }
  return colour;
}

video::Image heat_map(std::span<const float> values, int64_t rows, int64_t columns) {
  float least = std::numeric_limits<float>::infinity();
  float most = -least;
  for (const float x : values) {
    if (!std::isfinite(x)) continue;
    least = std::min(least, x);
    most = std::max(most, x);
  }
  const double range = most > least ? static_cast<double>(most) - static_cast<double>(least) : 1.0;
  const int64_t cell = std::max<int64_t>(1, kTargetEdge / std::max(rows, columns));
  video::Image image = video::Image::filled(rows * cell, columns * cell, kGrey);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      const auto x = static_cast<double>(values[static_cast<size_t>(r * columns + c)]);
      image.fill(r * cell, c * cell, cell, cell,
                 heat_colour((x - static_cast<double>(least)) / range));
    }
  }
  return image;
}

video::Image look_map(const LookMap& map) {
  const Grid& grid = map.tile_grid;
  // Panels in a nearly square arrangement, with room for a frame in every cell.
  const auto per_row = static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(grid.f))));
  const int64_t panel_rows = (grid.f + per_row - 1) / per_row;
  const int64_t cell =
      std::clamp<int64_t>(2 * kTargetEdge / (per_row * std::max(grid.h, grid.w)), 7, 48);
  const int64_t gap = cell / 2;
  const int64_t line = std::max<int64_t>(1, cell / 12);
  video::Image image = video::Image::filled(panel_rows * (grid.h * cell + gap) + gap,
                                            per_row * (grid.w * cell + gap) + gap, kGrey);
  const auto position = [&](int64_t tile) {
    const int64_t f = tile / (grid.h * grid.w);
    const int64_t h = tile / grid.w % grid.h;
    const int64_t w = tile % grid.w;
    return Position{.y = gap + f / per_row * (grid.h * cell + gap) + h * cell,
                    .x = gap + f % per_row * (grid.w * cell + gap) + w * cell};
  };
  const double most = std::max(1e-300, *std::ranges::max_element(map.weights));
  for (int64_t t = 0; t < grid.num_tokens(); ++t) {
    const Position at = position(t);
    const double share = map.weights[static_cast<size_t>(t)] / most;
    image.fill(at.y, at.x, cell, cell, heat_colour(std::sqrt(share)));
  }
  for (const int32_t t : map.kept) frame_cell(image, position(t), cell, line, kWhite);
  if (map.query_tile >= 0) frame_cell(image, position(map.query_tile), cell, 2 * line, kGreen);
  return image;
}

}  // namespace vsa::cli
