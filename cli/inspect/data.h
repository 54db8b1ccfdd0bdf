// What the coarse stage of one head says, and how much of dense attention the kept tiles hold.
// Host-only.
#pragma once

#include <vector>

#include "cli/common/sampled_tiles.h"
#include "cli/common/tensor_file.h"
#include "vsa/stages.h"

namespace vsa::cli {

/// The coarse stage and the selection of one query head.
struct HeadMap {
  int64_t num_q_tiles = 0, num_kv_tiles = 0;
  std::vector<float> scores;  ///< [num_q_tiles, num_kv_tiles], scaled, before the softmax
  LutBuffer lut;              ///< one row a query tile

  /// Tiles that query tile `row` keeps, ascending.
  std::vector<int32_t> kept(int64_t row) const;
  /// Softmax of a row of scores.
  std::vector<double> probabilities(int64_t row) const;
  double kept_share() const;
};

/// Runs pool, coarse and select for batch item `batch` and query head `head`.
HeadMap map_head(const Context& context, const AttentionInput& input, int64_t batch, int64_t head,
                 const SelectOptions& select, std::optional<float> scale);

/// The share of the dense softmax that lies in the kept tiles.
struct Mass {
  int64_t num_tiles = 0;        ///< query tiles that were looked at
  double mean = 0.0;            ///< over their tokens
  double least = 0.0;           ///< of one token
  std::vector<double> of_tile;  ///< mean of each query tile looked at
};

/// For the tokens of the sampled query tiles: exp(lse of the kept tiles - lse of all tiles), which
/// is the share exactly, up to rounding.
/// Cost: dense attention of those tiles.
Mass captured_mass(const Context& context, const AttentionInput& input, int64_t batch, int64_t head,
                   const HeadMap& map, const SampledTiles& sample, std::optional<float> scale);

}  // namespace vsa::cli
