// Threads: a loop over independent work items, and memory that each thread has for itself.
// Host-only.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

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
  const int threads =
      static_cast<int>(std::clamp<int64_t>(num_items, 1, num_threads(context)));
#pragma omp parallel for schedule(dynamic) num_threads(threads)
  for (int64_t item = 0; item < num_items; ++item) work(item, omp_get_thread_num());
}

/// Uninitialised floats on a cache-line boundary.
class FloatBuffer {
 public:
  FloatBuffer() = default;
  explicit FloatBuffer(int64_t size)
      : data_(static_cast<float*>(
            ::operator new[](static_cast<size_t>(size) * sizeof(float), kAlignment))) {}
  float* data() const { return data_.get(); }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Delete {
    void operator()(float* p) const { ::operator delete[](p, kAlignment); }
  };
  std::unique_ptr<float[], Delete> data_;
};

/// The widest vector of any target, in floats. Sizes in buffers are rounded up to it so that code
/// outside the kernels need not know the target.
inline constexpr int64_t kMaxLanes = 16;
inline int64_t round_up_lanes(int64_t n) { return (n + kMaxLanes - 1) / kMaxLanes * kMaxLanes; }

}  // namespace vsa::cpu
