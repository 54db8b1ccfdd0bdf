// Tiles that are kept whatever their scores: masks of pairs of tiles, and their union with a
// selection. Host-only.
//
// A mask becomes part of a selection by `unite`, whose table attention takes as the caller's own:
//
//   coarse, select -> lut --unite(mask)--> lut -> attention, fine, and their backward
#pragma once

#include <cstdint>
#include <vector>

#include "vsa/lut.h"
#include "vsa/status.h"
#include "vsa/tiling.h"

namespace vsa {

/// For each query tile the kv tiles that it keeps in any case; the same for all heads. Of a video
/// that attends to itself, whose tiles are those of a plan of its tokens in raster order: cuboids,
/// runs of a curve, any assignment. What the plan has before the video (prefix tiles) is part of no
/// mask that is made here. Memory: a byte for each pair of tiles.
class TileMask {
 public:
  /// No pair of tiles.
  static Result<TileMask> none(int64_t num_q_tiles, int64_t num_kv_tiles);
  /// Each tile and its neighbours: all tiles that hold one of the 26 tokens around a token of it.
  /// @param grid  of the video, whose tokens are the last of plan.seq_len()
  /// @return InvalidArgument if the plan has fewer positions than the grid has tokens
  static Result<TileMask> neighbours(const TilePlan& plan, Grid grid);
  /// The tiles that hold a token of the first frame see each other, which keeps a model from losing
  /// that frame.
  static Result<TileMask> first_frame(const TilePlan& plan, Grid grid);
  /// A sliding window over time: tiles that hold tokens whose frames are at most `frames` apart;
  /// with 0, tiles that share a frame.
  /// @return InvalidArgument as above, or if frames < 0
  static Result<TileMask> window(const TilePlan& plan, Grid grid, int64_t frames);

  int64_t num_q_tiles() const { return num_q_tiles_; }
  int64_t num_kv_tiles() const { return num_kv_tiles_; }
  bool keeps(int64_t q_tile, int64_t kv_tile) const { return at(q_tile, kv_tile) != 0; }
  void keep(int64_t q_tile, int64_t kv_tile) { at(q_tile, kv_tile) = 1; }
  /// How many kv tiles a query tile keeps.
  int64_t count(int64_t q_tile) const;
  /// Keeps what the other mask keeps, too.
  /// @return InvalidArgument if it has other extents
  Status add(const TileMask& other);

  /// The selection with the tiles of the mask added to each row, ascending and unique.
  /// @param lut  in host memory; its rows are those of select or of the caller
  /// @return InvalidArgument if the extents differ, or a row is not ascending, unique and in range
  Result<LutBuffer> unite(const ConstLut& lut) const;

 private:
  TileMask(int64_t num_q_tiles, int64_t num_kv_tiles)
      : num_q_tiles_(num_q_tiles),
        num_kv_tiles_(num_kv_tiles),
        kept_(static_cast<size_t>(num_q_tiles * num_kv_tiles), 0) {}
  uint8_t& at(int64_t q_tile, int64_t kv_tile) {
    return kept_[static_cast<size_t>(q_tile * num_kv_tiles_ + kv_tile)];
  }
  const uint8_t& at(int64_t q_tile, int64_t kv_tile) const {
    return kept_[static_cast<size_t>(q_tile * num_kv_tiles_ + kv_tile)];
  }

  int64_t num_q_tiles_, num_kv_tiles_;
  std::vector<uint8_t> kept_;  // [num_q_tiles, num_kv_tiles]
};

}  // namespace vsa
