// Threads: a loop over independent work items. Host-only.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

#include "vsa/backend.h"

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

}  // namespace vsa::cpu
