// A float array on a cache line, uninitialised. Host-only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>

namespace vsa::nn {

/// `size` floats, 64-byte aligned, not initialised; throws std::bad_alloc. Move-only.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(int64_t size)
      : size_(size),
        data_(static_cast<float*>(
            ::operator new(static_cast<size_t>(size) * sizeof(float), kAlignment))) {}

  float* data() { return data_.get(); }
  const float* data() const { return data_.get(); }
  int64_t size() const { return size_; }
  std::span<float> span() { return {data(), static_cast<size_t>(size_)}; }
  std::span<const float> span() const { return {data(), static_cast<size_t>(size_)}; }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(float* p) const { ::operator delete(p, kAlignment); }
  };
  int64_t size_ = 0;
  std::unique_ptr<float, Free> data_;
};

}  // namespace vsa::nn
