// What a family of architectures provides of the fine stage, forward. Host-only.
#pragma once

#include "src/cuda/combine/combine.h"
#include "src/cuda/plan/plan.h"
#include "vsa/attention.h"

namespace vsa::cuda {

/// What the fine kernel combines its result with in its epilogue; by default nothing.
struct FineCombine {
  float gate_fine = 1.0F;
  const float* coarse_out = nullptr;  // [B, H, Nq, D] contiguous; null: no coarse branch
  GateRows gate_coarse;
};
/// Whether the kernel can read this coarse output: it must be contiguous and begin at a multiple of
/// 16 bytes.
bool is_fusable(const ConstTensor& coarse_out);

/// The fine stage of one call. Its constructor takes the workspace; afterwards `prepare` and
/// `launch` are called on the device and stream of the call.
class FineRun {
 public:
  virtual ~FineRun() = default;

  /// Enqueues the kernels that compute what the fine kernel reads besides the tensors. Entries of
  /// the table that name no kv tile are ignored.
  virtual Status prepare(const CallSite& at, const PlanTables& plans,
                         const ConstLut& lut) const = 0;

  /// Enqueues the kernel, on plans that were built on the same stream:
  ///   args.out = gate_fine * fine + gate_coarse * coarse_out
  /// The kernel may start before the last kernel of `prepare` has ended (PDL). Everything else that
  /// it reads must have been complete before that kernel started. The bits do not depend on
  /// at.num_sms.
  /// @param args  q, k and v in compact order where their plan is scattered; out and lse are not
  virtual Status launch(const CallSite& at, const FineArgs& args, const PlanTables& plans,
                        const FineCombine& combine) const = 0;
};

}  // namespace vsa::cuda
