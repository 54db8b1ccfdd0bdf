// A float array on a cache line, uninitialised. Host-only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace vsa::nn {

/// Frees the memory of a Buffer of `size` floats.
struct FreeBuffer {
  int64_t size = 0;
  void operator()(float* p) const;
};

/// `size` floats, 64-byte aligned, not initialised; throws std::bad_alloc. Move-only.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(int64_t size);

  float* data() { return data_.get(); }
  const float* data() const { return data_.get(); }
  int64_t size() const { return size_; }
  std::span<float> span() { return {data(), static_cast<size_t>(size_)}; }
  std::span<const float> span() const { return {data(), static_cast<size_t>(size_)}; }

 private:
  int64_t size_ = 0;
  std::unique_ptr<float, FreeBuffer> data_;
};

}  // namespace vsa::nn
