// The checks of a grid, which all that builds something of a grid shares. Host-only.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

#include "vsa/status.h"
#include "vsa/tiling.h"

namespace vsa {

/// Tokens of a sequence: positions are int32.
inline constexpr int64_t kMaxTokens = std::numeric_limits<int32_t>::max();

/// a * b * c, or -1 if it exceeds kMaxTokens. All factors are >= 1.
inline int64_t bounded_product(int64_t a, int64_t b, int64_t c) {
  if (a > kMaxTokens / b) return -1;
  if (a * b > kMaxTokens / c) return -1;
  return a * b * c;
}

/// At least one token, and at most kMaxTokens.
Status check_grid(std::string_view operation, const Grid& grid);

}  // namespace vsa
