// Draws heat maps. Host-only.
#include "cli/inspect/heat_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "runtime/video/draw_text.h"

namespace vsa::cli {
namespace {

constexpr int64_t kTargetEdge = 512;
constexpr int64_t kMargin = 16;
constexpr int64_t kTick = 6;  // length of an axis mark, and its distance from the number
constexpr video::Rgb kGrey{96, 96, 96};
constexpr video::Rgb kPaper{24, 24, 24};
constexpr video::Rgb kInk{216, 216, 216};
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

/// The distance of numbers on an axis of `count` cells: 1, 2 or 5 times a power of ten, so that
/// there are at most 9.
int64_t tick_step(int64_t count) {
  int64_t step = 1;
  for (const int64_t factor : {2, 5, 10}) {
    if (count <= 9 * step) return step;
    step = factor;
  }
  return 10 * tick_step((count + 9) / 10);
}

/// "least [colours] most" on one line, from x on.
void draw_colour_bar(video::Image& image, Position at, const std::string& least,
                     const std::string& most) {
  constexpr int64_t kBarWidth = 128;
  constexpr int64_t kBarHeight = 14;
  video::draw_text(image, at.y, at.x, least, kInk);
  const int64_t bar = at.x + video::text_width(least) + kTick;
  for (int64_t x = 0; x < kBarWidth; ++x) {
    image.fill(at.y, bar + x, kBarHeight, 1,
               heat_colour(static_cast<double>(x) / static_cast<double>(kBarWidth - 1)));
  }
  video::draw_text(image, at.y, bar + kBarWidth + kTick, most, kInk);
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

ColourScale scale_of(std::span<const float> values) {
  float least = std::numeric_limits<float>::infinity();
  float most = -least;
  for (const float x : values) {
    if (!std::isfinite(x)) continue;
    least = std::min(least, x);
    most = std::max(most, x);
  }
  if (least > most) least = most = 0.0F;
  return {.least = static_cast<double>(least),
          .most = static_cast<double>(most),
          .least_label = fmt::format("{:.4g}", least),
          .most_label = fmt::format("{:.4g}", most)};
}

video::Image heat_map(const HeatMap& map) {
  constexpr const char* kAxes = "down: query tile   across: kv tile";
  const int64_t cell = std::max<int64_t>(1, kTargetEdge / std::max(map.rows, map.columns));
  const int64_t row_numbers = video::text_width(std::to_string(map.rows));
  // Title, axes, colour bar, numbers of the columns; below them the cells.
  const Position origin{.y = kMargin + 4 * video::kTextLinePx + kTick,
                        .x = kMargin + row_numbers + 2 * kTick};
  const int64_t text_px = std::max(video::text_width(map.title), video::text_width(kAxes));
  video::Image image = video::Image::filled(
      origin.y + map.rows * cell + kMargin,
      std::max(origin.x + map.columns * cell, kMargin + text_px) + kMargin, kPaper);

  video::draw_text(image, kMargin, kMargin, map.title, kInk);
  video::draw_text(image, kMargin + video::kTextLinePx, kMargin, kAxes, kInk);
  draw_colour_bar(image, {.y = kMargin + 2 * video::kTextLinePx, .x = kMargin},
                  map.scale.least_label, map.scale.most_label);
  for (int64_t c = 0; c < map.columns; c += tick_step(map.columns)) {
    const int64_t x = origin.x + c * cell + cell / 2;
    const std::string number = std::to_string(c);
    video::draw_text(image, kMargin + 3 * video::kTextLinePx, x - video::text_width(number) / 2,
                     number, kInk);
    image.fill(origin.y - kTick, x, kTick, 1, kInk);
  }
  for (int64_t r = 0; r < map.rows; r += tick_step(map.rows)) {
    const int64_t y = origin.y + r * cell + cell / 2;
    const std::string number = std::to_string(r);
    const int64_t x = origin.x - 2 * kTick - video::text_width(number);
    video::draw_text(image, y - video::kTextLinePx / 4, x, number, kInk);
    image.fill(y, origin.x - kTick, 1, kTick, kInk);
  }
  // All values alike: the least colour.
  const double range = map.scale.most > map.scale.least ? map.scale.most - map.scale.least : 1.0;
  for (int64_t r = 0; r < map.rows; ++r) {
    for (int64_t c = 0; c < map.columns; ++c) {
      const auto x = static_cast<double>(map.values[static_cast<size_t>(r * map.columns + c)]);
      image.fill(origin.y + r * cell, origin.x + c * cell, cell, cell,
                 heat_colour((x - map.scale.least) / range));
    }
  }
  return image;
}

video::Image look_map(const LookMap& map) {
  const Grid& grid = map.tile_grid;
  const double most = std::max(1e-300, *std::ranges::max_element(map.weights));
  const std::array<std::string, 2> legend{
      "one panel for each frame of tiles, rows downwards, columns to the right",
      map.query_tile >= 0 ? "white: kept   green: the query tile" : "white: kept"};
  // Panels in a nearly square arrangement, with room for a frame in every cell.
  const auto per_row = static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(grid.f))));
  const int64_t panel_rows = (grid.f + per_row - 1) / per_row;
  const int64_t cell =
      std::clamp<int64_t>(2 * kTargetEdge / (per_row * std::max(grid.h, grid.w)), 7, 48);
  const int64_t line = std::max<int64_t>(1, cell / 12);
  // Wide enough for the number of its frame, which stands above each panel.
  const int64_t pitch_x =
      std::max(grid.w * cell, video::text_width(fmt::format("frame {}", grid.f))) + kMargin;
  const int64_t pitch_y = video::kTextLinePx + grid.h * cell + kMargin / 2;
  const Position origin{.y = kMargin + 4 * video::kTextLinePx, .x = kMargin};
  int64_t width = per_row * pitch_x;
  for (const std::string& text : {map.title, legend[0], legend[1]}) {
    width = std::max(width, video::text_width(text) + kMargin);
  }
  video::Image image =
      video::Image::filled(origin.y + panel_rows * pitch_y + kMargin, kMargin + width, kPaper);

  video::draw_text(image, kMargin, kMargin, map.title, kInk);
  for (size_t i = 0; i < legend.size(); ++i) {
    const int64_t y = kMargin + (static_cast<int64_t>(i) + 1) * video::kTextLinePx;
    video::draw_text(image, y, kMargin, legend[i], kInk);
  }
  draw_colour_bar(image, {.y = kMargin + 3 * video::kTextLinePx, .x = kMargin}, "0",
                  fmt::format("{:.3g} (as the square root)", most));
  const auto position = [&](int64_t tile) {
    const int64_t f = tile / (grid.h * grid.w);
    const int64_t h = tile / grid.w % grid.h;
    const int64_t w = tile % grid.w;
    return Position{.y = origin.y + f / per_row * pitch_y + video::kTextLinePx + h * cell,
                    .x = origin.x + f % per_row * pitch_x + w * cell};
  };
  for (int64_t f = 0; f < grid.f; ++f) {
    const Position panel = position(f * grid.h * grid.w);
    video::draw_text(image, panel.y - video::kTextLinePx + kTick / 2, panel.x,
                     fmt::format("frame {}", f), kInk);
  }
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
