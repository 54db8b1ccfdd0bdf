// Copies of token tensors in compact order, for kernels that read whole blocks by TMA. Host-only.
#pragma once

#include <vector>

#include "src/cuda/plan/plan.h"
#include "src/cuda/support/rows.h"

namespace vsa::cuda {

struct CompactParams {
  ConstRows from;
  Rows to;
  const int32_t* tokens = nullptr;  // [num_tokens]: row i of `to` is row tokens[i] of `from`
  int32_t num_tokens = 0;
  int32_t num_heads = 0;
  int32_t head_dim = 0;
};
/// Enqueues the copy.
Status run_compact(const CallSite& at, const CompactParams& params, int64_t batch);

/// The copies of one call.
class CompactCopies {
 public:
  explicit CompactCopies(Carver& workspace) : workspace_(workspace) {}

  /// What to read in the place of x [B, H, S, D]: x itself, unless the tiles of its plan are
  /// neither cuboids nor runs; then a tensor in the workspace that `enqueue` fills.
  ConstTensor of(const ConstTensor& x, const PlanTable& plan);

  /// Enqueues all copies, on plans that were built on the same stream.
  /// Cost: one read and one write of each tensor.
  Status enqueue(const CallSite& at) const;

 private:
  struct Copy {
    CompactParams params;
    int64_t batch = 0;
  };
  Carver& workspace_;
  std::vector<Copy> copies_;
};

}  // namespace vsa::cuda
