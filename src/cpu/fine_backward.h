// The fine stage's gradients as part of the whole operator's. Host-only.
#pragma once

#include "vsa/stages.h"

namespace vsa::cpu {

/// What the whole operator adds to fine_backward.
struct FineBackwardExtras {
  Gate gate_fine = Gate::one();  ///< the gradient of `fine`'s output is gate_fine * dout
  ConstTensor dq_pooled;         ///< [B, H, Nq, D] f32; added to dq as shares of the means
  ConstTensor dk_pooled;         ///< [B, H_kv, Nk, D]; all three or none
  ConstTensor dv_pooled;
};
Status fine_backward(const Context& context, const FineBackwardArgs& args,
                     const FineBackwardExtras& extras);

}  // namespace vsa::cpu
