// The transpose of a look-up table: which query tiles keep each kv tile. TransposedLut is
// host-only, its view LutT host and device.
#pragma once

#include <cuda_runtime.h>

#include "src/cuda/support/launch.h"
#include "src/cuda/support/workspace.h"
#include "vsa/lut.h"
#include "vsa/status.h"

namespace vsa::cuda {

/// The transpose of a table, as kernels read it. Of kv tile j of head (b, h), row
/// r = (b * num_heads + h) * num_kv_tiles + j: index[offset[r]] to index[offset[r + 1] - 1] are the
/// query tiles that keep it, ascending. The row of a query head, never of a kv head.
struct LutT {
  const int64_t* offset = nullptr;  // [B * H * Nk + 1]
  const int32_t* index = nullptr;
};

/// Memory of a transpose: 4 bytes for each entry of the table, a bit for each pair of tiles of a
/// head, 8 bytes for each of its kv tiles.
class TransposedLut {
 public:
  TransposedLut(Carver& workspace, const LutDims& dims, int64_t num_kv_tiles);

  /// Enqueues the kernels that fill it. Rows of the table must ascend; entries from num_kv_tiles on
  /// and repeated entries are ignored, and nothing out of range is written whatever the table
  /// holds. No atomics: the same table gives the same transpose.
  Status build(const CallSite& at, const ConstLut& lut) const;

  LutT view() const { return {offset_, index_}; }

 private:
  int64_t num_kv_tiles_ = 0;
  uint32_t* bitmap_ = nullptr;
  int64_t* offset_ = nullptr;
  int32_t* index_ = nullptr;
};

}  // namespace vsa::cuda
