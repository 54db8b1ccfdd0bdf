// The reference backend: the seven stages in scalar fp64, the specification that every other
// backend is tested against. Written to be read: it runs on one thread, allocates as it goes, and
// loads any dtype to double and stores with one rounding. Host-only.
//
// Reading order: tile.cc pool.cc coarse.cc select.cc fine.cc combine.cc attention.cc. Each file
// holds a stage's forward and, below it, its backward. norm_rope_pool.cc comes before the operator.
#pragma once

#include <cstddef>
#include <vector>

#include "vsa/attention.h"
#include "vsa/norm_rope_pool.h"

namespace vsa::reference {

// Arguments are those of vsa/stages.h and vsa/attention.h, already validated, `scale` set. Unlike
// the public calls these take any mix of dtypes.
Status tile(const Context& context, const TileArgs& args);
Status untile(const Context& context, const UntileArgs& args);
Status pool(const Context& context, const PoolArgs& args);
Status pool_backward(const Context& context, const PoolBackwardArgs& args);
Status norm_rope_pool(const Context& context, const NormRopePoolArgs& args);
Status coarse(const Context& context, const CoarseArgs& args);
Status coarse_backward(const Context& context, const CoarseBackwardArgs& args);
Status select(const Context& context, const SelectArgs& args);
Status fine(const Context& context, const FineArgs& args);
Status fine_backward(const Context& context, const FineBackwardArgs& args);
Status combine(const Context& context, const CombineArgs& args);
Status combine_backward(const Context& context, const CombineBackwardArgs& args);
Status attention_forward(const Context& context, const AttentionArgs& args);
Status attention_backward(const Context& context, const AttentionBackwardArgs& args);

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
