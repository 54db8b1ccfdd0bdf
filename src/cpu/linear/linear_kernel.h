// A block of rows times a packed block of columns. Host-only.
#pragma once

#include <cstdint>

namespace vsa::cpu {

/// sums[m, cols] = x[m, k] * packed, which pack_transposed gave for `cols` rows of k numbers.
/// @param cols  a multiple of kMaxLanes
void multiply_packed(const float* x, int64_t m, int64_t k, const float* packed, int64_t cols,
                     float* sums);

}  // namespace vsa::cpu
