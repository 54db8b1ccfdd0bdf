// Arrays in a device's memory, and what brings weights into them. Host-only.
#include "runtime/device/weight_place.h"

#include <utility>
#include <vector>

#include "runtime/device/memory.h"
#include "runtime/device/weight_bytes.h"
#include "runtime/nn/convert.h"
#include "vsa/half.h"

namespace vsa::device {

Array::~Array() {
  if (owner_ != nullptr) owner_->give_back(data_, size_bytes_);
}

Array::Array(Array&& other) noexcept
    : owner_(std::move(other.owner_)),
      data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)) {}

Array& Array::operator=(Array&& other) noexcept {
  std::swap(owner_, other.owner_);
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

Array Array::part(void* data, int64_t size_bytes) {
  Array array;
  array.data_ = data;
  array.size_bytes_ = size_bytes;
  return array;
}

Status WeightPlace::copy_in_rounded(void* to, DType dtype, std::span<const float> values) const {
  const int64_t bytes = std::ssize(values) * vsa::size_bytes(dtype);
  if (dtype == DType::kF32) return copy_in(to, values.data(), bytes);
  std::vector<BF16> narrow(values.size());
  round_to(dtype, values, narrow.data());
  return copy_in(to, narrow.data(), bytes);
}

Result<Array> WeightPlace::rounded(DType dtype, std::span<const float> values) {
  Result<Array> to = array(std::ssize(values) * vsa::size_bytes(dtype));
  VSA_TRY(to.status());
  VSA_TRY(copy_in_rounded(to->data(), dtype, values));
  return to;
}

Result<Array> WeightPlace::weights(DType dtype, std::span<const nn::Weight* const> parts) {
  int64_t elements = 0;
  for (const nn::Weight* part : parts) elements += part->num_elements();
  Result<Array> to = array(elements * vsa::size_bytes(dtype));
  VSA_TRY(to.status());
  auto* at = static_cast<std::byte*>(to->data());
  for (const nn::Weight* part : parts) {
    const int64_t bytes = part->num_elements() * vsa::size_bytes(dtype);
    const auto stored = as_stored(*part, dtype);
    VSA_TRY(stored.empty() ? copy_in_rounded(at, dtype, nn::values(*part))
                           : copy_in(at, stored.data(), bytes));
    at += bytes;
  }
  return to;
}

}  // namespace vsa::device
