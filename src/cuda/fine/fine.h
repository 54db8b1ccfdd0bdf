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
/// Whether the kernel can read these rows: contiguous, from a multiple of 16 bytes on.
bool is_fusable(const ConstTensor& coarse_out);

/// The fine stage of one call. Whoever makes it takes its workspace; then, on the call's device and
/// stream, `prepare` and `launch`.
class FineRun {
 public:
  virtual ~FineRun() = default;

  /// Enqueues what the kernel reads besides the tensors. Entries of the table that name no kv tile
  /// are ignored.
  virtual Status prepare(const CallSite& at, const PlanTables& plans,
                         const ConstLut& lut) const = 0;

  /// Enqueues the kernel, on plans that were built on the same stream:
  ///   args.out = gate_fine * fine + gate_coarse * coarse_out
  /// What it reads besides the results of `prepare` was there before the last kernel of that
  /// started. The bits do not depend on at.num_sms.
  virtual Status launch(const CallSite& at, const FineArgs& args, const PlanTables& plans,
                        const FineCombine& combine) const = 0;
};

}  // namespace vsa::cuda
