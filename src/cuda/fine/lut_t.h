// The transpose of a look-up table: which query tiles keep each kv tile. TransposedLut is
// host-only, its view LutT host and device.
#pragma once

#include <cuda_runtime.h>

#include "src/cuda/support/launch.h"
#include "src/cuda/support/workspace.h"
#include "vsa/lut.h"
#include "vsa/status.h"

namespace vsa::cuda {

/// The transpose of a table, as kernels read it. Row r = (b * num_heads + h) * num_kv_tiles + j has
/// the query tiles of head (b, h) that keep kv tile j: index[offset[r]] to index[offset[r + 1] -
/// 1], ascending. h is a query head: the heads that share a kv head have rows of their own.
struct LutT {
  const int64_t* offset = nullptr;  // [B * H * Nk + 1]
  const int32_t* index = nullptr;
};

/// A transpose in the workspace of a call: 4 bytes for each entry of the table, and for each head 8
/// bytes for each kv tile and a bit for each pair of a query tile and a kv tile.
class TransposedLut {
 public:
  TransposedLut(Carver& workspace, const LutDims& dims, int64_t num_kv_tiles);

  /// Enqueues the kernels that fill it. Rows of the table must ascend. Entries from num_kv_tiles on
  /// and repeated entries are ignored, and whatever the table holds, nothing is written out of
  /// range. The kernels use no atomics, so the same table gives the same transpose.
  Status build(const CallSite& at, const ConstLut& lut) const;

  LutT view() const { return {offset_, index_}; }

 private:
  int64_t num_kv_tiles_ = 0;
  uint32_t* bitmap_ = nullptr;
  int64_t* offset_ = nullptr;
  int32_t* index_ = nullptr;
};

}  // namespace vsa::cuda
