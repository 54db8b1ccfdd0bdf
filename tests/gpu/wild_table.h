// A table as nobody checks it on the device, and what it has to count for.
#pragma once

#include <algorithm>
#include <climits>

#include "tests/gpu/cases.h"

namespace vsa::test::gpu {

/// For 2 heads, 12 query tiles and 12 kv tiles.
struct WildTable {
  static constexpr LutDims kDims{.batch = 1, .num_heads = 2, .num_q_tiles = 12, .pitch = 4};
  LutBuffer wild{kDims};   ///< entries that name no tile, counts beyond the pitch and below 0
  LutBuffer clean{kDims};  ///< only what it names

  WildTable() {
    for (int64_t row = 0; row < 24; ++row) {
      const auto tile = static_cast<int32_t>(row % 11);
      const int32_t entries[] = {INT32_MIN, tile, tile + 1, row % 2 == 0 ? 12 : INT32_MAX};
      std::ranges::copy(entries, wild.view().index + row * kDims.pitch);
      wild.view().count[row] = row % 3 == 0 ? INT32_MAX : row % 3 == 1 ? 4 : -7;
      if (row % 3 == 2) continue;
      clean.view().index[row * kDims.pitch] = tile;
      clean.view().index[row * kDims.pitch + 1] = tile + 1;
      clean.view().count[row] = 2;
    }
  }
};

}  // namespace vsa::test::gpu
