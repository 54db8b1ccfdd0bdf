// Memory for packed tensors and scratch. Host-only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace vsa::cpu {

/// Uninitialised floats on a cache-line boundary, in huge pages if they are many and the system has
/// such pages. Every call allocates its memory anew: with pages of 4 KiB the page faults of 16 MiB
/// took 4 ms of a call of 90 ms.
class FloatBuffer {
 public:
  FloatBuffer() = default;
  /// Throws std::bad_alloc.
  explicit FloatBuffer(int64_t size);
  float* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(float* p) const;
  };
  std::unique_ptr<float[], Free> data_;
};

/// The widest vector of any target, in floats. Sizes in buffers are rounded up to it so that code
/// outside the kernels need not know the target.
inline constexpr int64_t kMaxLanes = 16;
inline int64_t round_up_lanes(int64_t n) { return (n + kMaxLanes - 1) / kMaxLanes * kMaxLanes; }

}  // namespace vsa::cpu
