// One row of a look-up table. Host-only.
#pragma once

#include <cstdint>
#include <span>

#include "vsa/lut.h"

namespace vsa {

/// Number of the row of query tile i, head h, batch b in a table of these extents.
inline int64_t lut_row_idx(const LutDims& dims, int64_t b, int64_t h, int64_t i) {
  return (b * dims.num_heads + h) * dims.num_q_tiles + i;
}

/// The kv tiles that the query tile keeps: the valid part of its row, ascending.
inline std::span<const int32_t> lut_row(const ConstLut& lut, int64_t b, int64_t h, int64_t i) {
  const int64_t row = lut_row_idx(lut.dims, b, h, i);
  return {lut.index + row * lut.dims.pitch, static_cast<size_t>(lut.count[row])};
}

}  // namespace vsa
