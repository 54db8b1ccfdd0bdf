// Threads: a loop over independent work items. Host-only.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

#include "vsa/backend.h"
#include "vsa/tensor.h"

namespace vsa::cpu {

/// Threads that a loop of this context uses.
inline int num_threads(const Context& context) {
  return context.num_threads > 0 ? context.num_threads : omp_get_max_threads();
}

/// Calls work(item, thread) for all items 0 <= item < num_items, thread < num_threads(context).
/// Which thread gets which item is open, so results are the same for any number of threads only
/// because no item reads what another one writes. `work` must not throw.
template <class Work>
void parallel_for(const Context& context, int64_t num_items, const Work& work) {
  const int threads = static_cast<int>(std::clamp<int64_t>(num_items, 1, num_threads(context)));
#pragma omp parallel for schedule(dynamic) num_threads(threads)
  for (int64_t item = 0; item < num_items; ++item) work(item, omp_get_thread_num());
}

/// Calls work(b, h, i, thread) for the items 0 <= i < per_head (tiles or rows) of every head of x.
template <class Work>
void parallel_for_heads(const Context& context, const ConstTensor& x, int64_t per_head,
                        const Work& work) {
  const int64_t num_heads = x.shape[1];
  parallel_for(context, x.shape[0] * num_heads * per_head, [&](int64_t item, int thread) {
    const int64_t head = item / per_head;
    work(head / num_heads, head % num_heads, item % per_head, thread);
  });
}

}  // namespace vsa::cpu
