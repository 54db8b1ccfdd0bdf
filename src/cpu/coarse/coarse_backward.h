// The coarse stage seen as the fine one, which it is over the means of tiles. Host-only.
#pragma once

#include "src/cpu/support/float_tensor.h"
#include "vsa/stages.h"

namespace vsa::cpu {

/// Coarse attention run by the fine stage, forward and then backward: every mean attends to the
/// means of all kv tiles that have tokens. Scores are not kept, so it needs no Nq x Nk memory but
/// its table.
class CoarseAsFine {
 public:
  /// Runs forward. Only shapes, inputs, kv_plan and scale of `args` are read; they must outlive
  /// this.
  CoarseAsFine(const Context& context, const CoarseBackwardArgs& args);

  const Tensor& out() const { return out_.view(); }  ///< coarse_out: [B, H, Nq, D] f32

  /// Writes args.dq_pooled, dk_pooled and dv_pooled, given args.dcoarse_out.
  Status backward() const;

 private:
  const Context& context_;
  const CoarseBackwardArgs& args_;
  TilePlan q_plan_, kv_plan_;  // of the Nq and Nk means
  LutBuffer lut_;              // everything
  FloatTensor out_, lse_;
};

}  // namespace vsa::cpu
