// The transpose of a look-up table, by a counting sort over kv tiles. Host-only.
#include "src/cpu/fine/lut_t.h"

#include <numeric>

#include "src/core/lut_row.h"

namespace vsa::cpu {

LutT::LutT(const ConstLut& lut, int64_t b, int64_t h, int64_t num_kv_tiles)
    : offsets_(static_cast<size_t>(num_kv_tiles) + 1, 0) {
  for (int64_t i = 0; i < lut.dims.num_q_tiles; ++i) {
    for (const int32_t j : lut_row(lut, b, h, i)) ++offsets_[static_cast<size_t>(j) + 1];
  }
  std::partial_sum(offsets_.begin(), offsets_.end(), offsets_.begin());
  q_tiles_.resize(static_cast<size_t>(offsets_.back()));
  std::vector<int64_t> next(offsets_.begin(), offsets_.end() - 1);
  for (int64_t i = 0; i < lut.dims.num_q_tiles; ++i) {
    for (const int32_t j : lut_row(lut, b, h, i)) {
      q_tiles_[static_cast<size_t>(next[static_cast<size_t>(j)]++)] = static_cast<int32_t>(i);
    }
  }
}

}  // namespace vsa::cpu
