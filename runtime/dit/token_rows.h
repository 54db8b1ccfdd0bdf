// In which order the rows of a pass hold the tokens of its video. Host-only.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "vsa/tiling.h"

namespace vsa::dit {

/// All steps between the patches and the head compute row by row, but for attention, which has a
/// plan. So the rows of a plan without cuboids are brought into the order of its tiles once a pass,
/// where the patches are made, and back where they are put into the video. Tiles are runs of rows
/// then, which every backend reads at full speed. Cuboids are read at full speed in raster order.
struct TokenRows {
  std::vector<int32_t> order;  ///< row i is token order[i] of raster order; empty: token i
  TilePlan plan;               ///< of the rows

  /// @param plan  of the tokens in raster order
  explicit TokenRows(TilePlan plan_of_tokens) : plan(std::move(plan_of_tokens)) {
    if (plan.video_grid().num_tokens() != 0) return;
    order.assign(plan.tokens().begin(), plan.tokens().end());
    plan = plan.in_compact_order();
  }
};

}  // namespace vsa::dit
