// Rounding of the coarse stage's numbers, for models that were trained with it. Host-only.
#pragma once

#include <cstdint>

#include "vsa/half.h"
#include "vsa/stages.h"

namespace vsa::cpu {

/// x[0, n) as CoarseRounding asks for.
inline void round_row(CoarseRounding rounding, float* x, int64_t n) {
  if (rounding == CoarseRounding::kNone) return;
  for (int64_t i = 0; i < n; ++i) x[i] = static_cast<float>(BF16(x[i]));
}

}  // namespace vsa::cpu
