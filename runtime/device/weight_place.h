// Arrays in a device's memory, and what brings weights into them. Host-only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "runtime/nn/weight.h"
#include "vsa/status.h"
#include "vsa/tensor.h"

namespace vsa::device {

class Memory;

/// Memory that one owner has, or a part of another array, which must outlive it.
class Array {
 public:
  Array() = default;
  ~Array();
  Array(Array&& other) noexcept;
  Array& operator=(Array&& other) noexcept;

  void* data() const { return data_; }
  bool empty() const { return data_ == nullptr; }
  int64_t size_bytes() const { return size_bytes_; }

  static Array part(void* data, int64_t size_bytes);

 private:
  friend class Memory;
  std::shared_ptr<Memory> owner_;  // null: a part
  void* data_ = nullptr;
  int64_t size_bytes_ = 0;
};

/// Where weights are put: into the device's memory, or where they come there from.
class WeightPlace {
 public:
  virtual ~WeightPlace() = default;

  /// Uninitialised. @return OutOfMemory | DeviceError
  virtual Result<Array> array(int64_t size_bytes) = 0;
  /// Brings bytes into such an array; `from` may change once it returns.
  virtual Status copy_in(void* to, const void* from, int64_t size_bytes) const = 0;

  /// The same of numbers, rounded to the nearest of `dtype` (f32 or bf16).
  Status copy_in_rounded(void* to, DType dtype, std::span<const float> values) const;
  /// An array of them.
  Result<Array> rounded(DType dtype, std::span<const float> values);
  /// An array of the numbers in f32.
  Result<Array> f32(std::span<const float> values) { return rounded(DType::kF32, values); }
  /// An array of all values of weights one behind the other, in `dtype`, with their changes made.
  /// Throws as nn::values.
  Result<Array> weights(DType dtype, std::span<const nn::Weight* const> parts);
};

}  // namespace vsa::device
