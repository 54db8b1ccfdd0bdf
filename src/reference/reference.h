// The reference backend: the seven stages in scalar fp64, the specification that every other
// backend is tested against. Written to be read: it runs on one thread, allocates as it goes, and
// loads any dtype to double and stores with one rounding. Host-only.
//
// Reading order: tile.cc pool.cc coarse.cc select.cc fine.cc combine.cc attention.cc. Each file
// holds a stage's forward and, below it, its backward. norm_rope_pool.cc comes before the operator,
// residual_norm.cc around it.
#pragma once

#include <cstddef>
#include <vector>

#include "src/core/stage_list.h"

namespace vsa::reference {

// Unlike the public calls these take any mix of dtypes.
VSA_FOR_EACH_STAGE(VSA_DECLARE_STAGE)

/// A vector of head_dim numbers, or of one number per key.
using Row = std::vector<double>;

inline double dot(const Row& a, const Row& b) {
  double sum = 0.0;
  for (size_t d = 0; d < a.size(); ++d) sum += a[d] * b[d];
  return sum;
}

/// y += a * x
inline void add_scaled(Row& y, double a, const Row& x) {
  for (size_t d = 0; d < y.size(); ++d) y[d] += a * x[d];
}

}  // namespace vsa::reference
