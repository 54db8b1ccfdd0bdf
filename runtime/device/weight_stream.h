// Brings weights to a device while it computes. Host-only.
//
//   file --(host)--> one of two parts of pinned memory --(a stream of its own)--> the device
//
// The host fills one part while the device copies the other one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "runtime/device/memory.h"
#include "runtime/nn/weight.h"

namespace vsa::device {

/// Used from one thread at a time.
class WeightStream {
 public:
  /// Bytes of either part. Each copy of 32 MiB takes the device half a millisecond or more, in
  /// which the host has enqueued the next one.
  static constexpr int64_t kPartBytes = int64_t{32} << 20;

  /// @return OutOfMemory | DeviceError
  static Result<std::unique_ptr<WeightStream>> make(const Memory& memory);
  /// Waits for the copies.
  ~WeightStream();
  WeightStream(const WeightStream&) = delete;
  WeightStream& operator=(const WeightStream&) = delete;

  /// Enqueues a copy of all values of the weight, in `dtype` and with its change made; it may go
  /// when this returns. Throws as nn::values.
  Status bring(void* to, DType dtype, const nn::Weight& weight);
  /// What is brought from now on is written once `event` has happened.
  Status wait_for(const DeviceEvent& event) const { return stream_.wait_for(event); }
  /// Marks what was brought until now.
  Status record(const DeviceEvent& event) const { return stream_.record(event); }

 private:
  struct Part {
    PinnedMemory memory;
    DeviceEvent copied;
  };
  WeightStream() = default;
  /// fill(first element, number of elements, where to) for one part after the other.
  template <class Fill>
  Status bring_parts(void* to, DType dtype, int64_t num_elements, const Fill& fill);

  DeviceStream stream_;
  std::array<Part, 2> parts_;
  size_t next_ = 0;
};

}  // namespace vsa::device
