// A few tiles of a sequence brought together, so that a slow exact answer is affordable. Host-only.
//
// What a query tile gets depends on no other query tile, and what flows back into a kv tile on no
// other kv tile. So the reference, run on the sampled tiles alone, must agree with a run on all.
#pragma once

#include <vector>

#include "cli/common/owned_tensor.h"
#include "vsa/lut.h"
#include "vsa/tiling.h"

namespace vsa::cli {

struct SampledTiles {
  std::vector<int64_t> tiles;  ///< numbers in the plan they were taken from, ascending
  TilePlan plan;               ///< of the gathered tensors: these tiles, in tile order
};

/// `count` tiles (at most all) at even distances, the first and the last among them if count > 1.
SampledTiles sample_tiles(const TilePlan& plan, int64_t count);

/// The tokens of those tiles, [B, H, count * tile_tokens, D]; padding is 0.
OwnedTensor gather_tokens(const ConstTensor& x, const TilePlan& plan, const SampledTiles& sample);
/// Rows of a tile tensor, [B, H, count, D].
OwnedTensor gather_rows(const ConstTensor& x, const SampledTiles& sample);
/// Rows of a table.
LutBuffer gather_rows(const ConstLut& lut, const SampledTiles& sample);
/// All rows of a table, with only the sampled kv tiles, renumbered 0, 1, ...
LutBuffer restrict_columns(const ConstLut& lut, const SampledTiles& sample);

}  // namespace vsa::cli
