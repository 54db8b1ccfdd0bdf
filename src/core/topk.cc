// From a sparsity to a number of kv tiles. Host-only.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "vsa/tiling.h"

namespace vsa {

Result<int64_t> topk_from_sparsity(double sparsity, int64_t num_kv_tiles) {
  if (!std::isfinite(sparsity)) {
    return invalid_argument(
        fmt::format("[topk_from_sparsity] sparsity: expected a finite number, got {}", sparsity));
  }
  if (num_kv_tiles < 1) {
    return invalid_argument(fmt::format(
        "[topk_from_sparsity] num_kv_tiles: expected at least 1, got {}", num_kv_tiles));
  }
  // The order of operations is FastVideo's: (1 - 0.95) * 20 is 1.0000000000000009 in double, so 2.
  // Clamping before the conversion keeps huge sparsities from overflowing int64.
  const double kept = std::ceil((1.0 - sparsity) * static_cast<double>(num_kv_tiles));
  return static_cast<int64_t>(std::clamp(kept, 1.0, static_cast<double>(num_kv_tiles)));
}

}  // namespace vsa
