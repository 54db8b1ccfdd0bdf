// The transpose of a look-up table: which query tiles keep each kv tile. Host-only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "vsa/lut.h"

namespace vsa::cpu {

/// The transpose of one head's table.
class LutT {
 public:
  /// Cost: two reads of the head's rows; 4 bytes per kept tile.
  LutT(const ConstLut& lut, int64_t b, int64_t h, int64_t num_kv_tiles);

  /// The query tiles whose rows hold kv tile j, ascending.
  std::span<const int32_t> q_tiles(int64_t j) const {
    const auto first = static_cast<size_t>(offsets_[static_cast<size_t>(j)]);
    const auto last = static_cast<size_t>(offsets_[static_cast<size_t>(j) + 1]);
    return {q_tiles_.data() + first, last - first};
  }

 private:
  std::vector<int64_t> offsets_;  // [num_kv_tiles + 1] into q_tiles_
  std::vector<int32_t> q_tiles_;
};

}  // namespace vsa::cpu
