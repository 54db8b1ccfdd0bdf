// Positions of a sequence that belong to no tile. Host-only.
#include "src/cpu/support/padding.h"

#include <cstring>
#include <vector>

#include "src/core/element.h"

namespace vsa::cpu {

void zero_padding(const Tensor& x, const TilePlan& plan) {
  if (x.empty() || plan.num_valid_tokens() == plan.seq_len()) return;
  std::vector<bool> valid(static_cast<size_t>(plan.seq_len()), false);
  for (int64_t t = 0; t < plan.num_tiles(); ++t) {
    for (const int32_t token : plan.tokens(t)) valid[static_cast<size_t>(token)] = true;
  }
  const auto row_bytes = static_cast<size_t>(x.shape[3] * size_bytes(x.dtype));
  for (int64_t b = 0; b < x.shape[0]; ++b) {
    for (int64_t h = 0; h < x.shape[1]; ++h) {
      for (int64_t s = 0; s < x.shape[2]; ++s) {
        if (valid[static_cast<size_t>(s)]) continue;
        // All bits 0 is 0.0 in every dtype.
        std::memset(static_cast<std::byte*>(x.data) + row_offset(x, b, h, s) * size_bytes(x.dtype),
                    0, row_bytes);
      }
    }
  }
}

}  // namespace vsa::cpu
