// The fine stage on sm_90a. Host-only.
#pragma once

#include <memory>

#include "src/cuda/family.h"

namespace vsa::cuda::sm90 {

/// Workspace of a call: 48 bytes for each pair of query blocks, and 4 for each kv block that the
/// pair keeps.
std::unique_ptr<FineRun> make_fine(Carver& workspace, const PlanTables& plans, const LutDims& dims,
                                   int64_t head_dim);

/// Workspace of a call: 512 bytes for each query block of each head, and the transposed look-up
/// table (lut_t.h).
std::unique_ptr<FineBackwardRun> make_fine_backward(Carver& workspace, const PlanTables& plans,
                                                    const LutDims& dims);

}  // namespace vsa::cuda::sm90
