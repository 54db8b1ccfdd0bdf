// RMSNorm and rotary embedding of one head of a tile. Host-only.
#pragma once

#include <cstdint>

namespace vsa::cpu {

/// sums[i] += the sum of squares of row i of rows[count, head_dim].
void add_squares(const float* rows, int64_t count, int64_t head_dim, float* sums);

struct NormRopeTile {
  float* rows = nullptr;  ///< [count, head_dim]; read and written
  int64_t count = 0, head_dim = 0;
  const float* rstd = nullptr;    ///< [count]; null: all ones
  const float* weight = nullptr;  ///< [head_dim]; null: all ones
  const float* cos = nullptr;     ///< [count, head_dim / 2]; null: no rotation
  const float* sin = nullptr;
};

/// n = row * rstd * weight
/// (row_2j, row_2j+1) = (n_2j cos_j - n_2j+1 sin_j, n_2j sin_j + n_2j+1 cos_j)
void norm_rope_rows(const NormRopeTile& tile);

}  // namespace vsa::cpu
