// Which tensors of a call are copied into compact order. Host-only.
#include "src/cuda/tile/compact.h"

#include "src/cuda/support/numbers.h"

namespace vsa::cuda {

ConstTensor CompactCopies::of(const ConstTensor& x, const PlanTable& plan) {
  if (!plan.is_scattered) return x;
  const Tensor copy = workspace_.take_like(x);
  copies_.push_back({.params = {.from = rows_of(x),
                                .to = rows_of(copy),
                                .tokens = plan.shape.tokens,
                                .num_tokens = narrow(x.shape[2]),
                                .num_heads = narrow(x.shape[1]),
                                .head_dim = narrow(x.shape[3])},
                     .batch = x.shape[0]});
  return copy;
}

Status CompactCopies::enqueue(const CallSite& at) const {
  for (const Copy& copy : copies_) VSA_TRY(run_compact(at, copy.params, copy.batch));
  return {};
}

}  // namespace vsa::cuda
