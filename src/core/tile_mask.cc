// Masks of pairs of tiles, from where their tokens lie in the video. Host-only.
#include "vsa/tile_mask.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <span>

#include "src/core/grid_check.h"

namespace vsa {
namespace {

/// The tile of each token of the video in raster order; -1 if it is in none.
Result<std::vector<int32_t>> tiles_of_tokens(const TilePlan& plan, const Grid& grid) {
  VSA_TRY(check_grid("tile_mask", grid));
  const int64_t base = plan.seq_len() - grid.num_tokens();
  if (base < 0) {
    return invalid_argument(
        fmt::format("[tile_mask] plan: expected at least {} positions, the tokens of the grid, got "
                    "{}",
                    grid.num_tokens(), plan.seq_len()));
  }
  std::vector<int32_t> tiles(static_cast<size_t>(grid.num_tokens()), -1);
  for (int64_t t = 0; t < plan.num_tiles(); ++t) {
    for (const int32_t position : plan.tokens(t)) {
      if (position >= base) tiles[static_cast<size_t>(position - base)] = static_cast<int32_t>(t);
    }
  }
  return tiles;
}

/// First and last frame of each tile's tokens; a tile without tokens of the video has none.
struct Frames {
  int64_t first = std::numeric_limits<int64_t>::max();
  int64_t last = -1;
  bool none() const { return last < 0; }
};
Result<std::vector<Frames>> frames_of_tiles(const TilePlan& plan, const Grid& grid) {
  const Result<std::vector<int32_t>> tiles = tiles_of_tokens(plan, grid);
  VSA_TRY(tiles.status());
  std::vector<Frames> frames(static_cast<size_t>(plan.num_tiles()));
  for (int64_t token = 0; token < grid.num_tokens(); ++token) {
    const int32_t tile = (*tiles)[static_cast<size_t>(token)];
    if (tile < 0) continue;
    Frames& of_tile = frames[static_cast<size_t>(tile)];
    const int64_t frame = token / (grid.h * grid.w);
    of_tile.first = std::min(of_tile.first, frame);
    of_tile.last = std::max(of_tile.last, frame);
  }
  return frames;
}

}  // namespace

Result<TileMask> TileMask::none(int64_t num_q_tiles, int64_t num_kv_tiles) {
  if (num_q_tiles < 1 || num_kv_tiles < 1 || num_q_tiles > kMaxTokens / num_kv_tiles) {
    return invalid_argument(
        fmt::format("[tile_mask] num_q_tiles: expected at least 1 query tile and 1 kv tile, and at "
                    "most {} pairs, got {} and {}",
                    kMaxTokens, num_q_tiles, num_kv_tiles));
  }
  return TileMask(num_q_tiles, num_kv_tiles);
}

Result<TileMask> TileMask::neighbours(const TilePlan& plan, Grid grid) {
  const Result<std::vector<int32_t>> tiles = tiles_of_tokens(plan, grid);
  VSA_TRY(tiles.status());
  Result<TileMask> mask = none(plan.num_tiles(), plan.num_tiles());
  VSA_TRY(mask.status());
  const auto tile_at = [&](int64_t f, int64_t h, int64_t w) -> int64_t {
    if (f < 0 || f >= grid.f || h < 0 || h >= grid.h || w < 0 || w >= grid.w) return -1;
    return (*tiles)[static_cast<size_t>((f * grid.h + h) * grid.w + w)];
  };
  for (int64_t token = 0; token < grid.num_tokens(); ++token) {
    const int64_t f = token / (grid.h * grid.w);
    const int64_t h = token / grid.w % grid.h;
    const int64_t w = token % grid.w;
    const int64_t here = tile_at(f, h, w);
    for (int64_t step = 0; here >= 0 && step < 27; ++step) {  // itself among them
      const int64_t there = tile_at(f + step / 9 - 1, h + step / 3 % 3 - 1, w + step % 3 - 1);
      if (there >= 0) (*mask).keep(here, there);
    }
  }
  return mask;
}

Result<TileMask> TileMask::first_frame(const TilePlan& plan, Grid grid) {
  const Result<std::vector<Frames>> frames = frames_of_tiles(plan, grid);
  VSA_TRY(frames.status());
  Result<TileMask> mask = none(plan.num_tiles(), plan.num_tiles());
  VSA_TRY(mask.status());
  for (int64_t i = 0; i < plan.num_tiles(); ++i) {
    for (int64_t j = 0; j < plan.num_tiles(); ++j) {
      const bool both = (*frames)[static_cast<size_t>(i)].first == 0 &&
                        (*frames)[static_cast<size_t>(j)].first == 0;
      if (both) (*mask).keep(i, j);
    }
  }
  return mask;
}

Result<TileMask> TileMask::window(const TilePlan& plan, Grid grid, int64_t frames) {
  if (frames < 0) {
    return invalid_argument(fmt::format("[tile_mask] frames: expected at least 0, got {}", frames));
  }
  const Result<std::vector<Frames>> all = frames_of_tiles(plan, grid);
  VSA_TRY(all.status());
  Result<TileMask> mask = none(plan.num_tiles(), plan.num_tiles());
  VSA_TRY(mask.status());
  for (int64_t i = 0; i < plan.num_tiles(); ++i) {
    const Frames& a = (*all)[static_cast<size_t>(i)];
    for (int64_t j = 0; j < plan.num_tiles(); ++j) {
      const Frames& b = (*all)[static_cast<size_t>(j)];
      if (a.none() || b.none()) continue;
      if (a.first - b.last <= frames && b.first - a.last <= frames) (*mask).keep(i, j);
    }
  }
  return mask;
}

int64_t TileMask::count(int64_t q_tile) const {
  const auto first = kept_.begin() + static_cast<std::ptrdiff_t>(q_tile * num_kv_tiles_);
  return std::count(first, first + static_cast<std::ptrdiff_t>(num_kv_tiles_), uint8_t{1});
}

Status TileMask::add(const TileMask& other) {
  if (other.num_q_tiles_ != num_q_tiles_ || other.num_kv_tiles_ != num_kv_tiles_) {
    return invalid_argument(fmt::format("[tile_mask] other: expected [{},{}], got [{},{}]",
                                        num_q_tiles_, num_kv_tiles_, other.num_q_tiles_,
                                        other.num_kv_tiles_));
  }
  for (size_t i = 0; i < kept_.size(); ++i) kept_[i] |= other.kept_[i];
  return {};
}

Result<LutBuffer> TileMask::unite(const ConstLut& lut) const {
  const LutDims& d = lut.dims;
  if (lut.index == nullptr || lut.count == nullptr || d.batch < 1 || d.num_heads < 1 ||
      d.num_q_tiles != num_q_tiles_ || d.pitch < 0) {
    return invalid_argument(fmt::format(
        "[tile_mask] lut: expected a table with {} query tiles, got one of [{},{},{},{}]",
        num_q_tiles_, d.batch, d.num_heads, d.num_q_tiles, d.pitch));
  }
  const int64_t num_rows = d.batch * d.num_heads * num_q_tiles_;
  std::vector<std::vector<int32_t>> rows(static_cast<size_t>(num_rows));
  size_t longest = 1;
  for (int64_t row = 0; row < num_rows; ++row) {
    if (lut.count[row] < 0 || lut.count[row] > d.pitch) {
      return invalid_argument(fmt::format("[tile_mask] lut: expected counts of 0 to {}, got {}",
                                          d.pitch, lut.count[row]));
    }
    const std::span<const int32_t> kept(lut.index + row * d.pitch,
                                        static_cast<size_t>(lut.count[row]));
    int64_t previous = -1;
    for (const int32_t tile : kept) {
      if (tile <= previous || tile >= num_kv_tiles_) {
        return invalid_argument(
            fmt::format("[tile_mask] lut: expected kv tiles below {}, ascending, got {} after {}",
                        num_kv_tiles_, tile, previous));
      }
      previous = tile;
    }
    std::vector<int32_t> masked;
    for (int64_t tile = 0; tile < num_kv_tiles_; ++tile) {
      if (keeps(row % num_q_tiles_, tile)) masked.push_back(static_cast<int32_t>(tile));
    }
    std::vector<int32_t>& both = rows[static_cast<size_t>(row)];
    std::ranges::set_union(kept, masked, std::back_inserter(both));
    longest = std::max(longest, both.size());
  }
  LutBuffer united({.batch = d.batch,
                    .num_heads = d.num_heads,
                    .num_q_tiles = num_q_tiles_,
                    .pitch = static_cast<int64_t>(longest)});
  const Lut to = united.view();
  for (int64_t row = 0; row < num_rows; ++row) {
    const std::vector<int32_t>& both = rows[static_cast<size_t>(row)];
    std::ranges::copy(both, to.index + row * to.dims.pitch);
    to.count[row] = static_cast<int32_t>(both.size());
  }
  return united;
}

}  // namespace vsa
