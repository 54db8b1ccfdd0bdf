// Positions of a sequence that belong to no tile. Host-only.
#pragma once

#include "vsa/tensor.h"
#include "vsa/tiling.h"

namespace vsa::cpu {

/// Writes 0 to the rows of x ([B, H, plan.seq_len(), *]) that no tile of the plan has; nothing if
/// x is empty. Cost: 1 bit of memory per position, and only if there is padding.
void zero_padding(const Tensor& x, const TilePlan& plan);

}  // namespace vsa::cpu
