// What a device has besides memory: streams, events, graphs, and host memory that it copies from by
// itself. DeviceMemory makes them. Host-only.
#pragma once

#include <cstdint>

#include "vsa/status.h"

namespace vsa {

struct DeviceFunctions;

/// Something of a device that ends with this object. The base of what follows; it may be moved, and
/// used and destroyed on any thread, by one at a time. An empty one may only be assigned to, moved
/// from or destroyed.
class DeviceHandle {
 public:
  DeviceHandle() = default;
  ~DeviceHandle();
  DeviceHandle(DeviceHandle&& other) noexcept;
  DeviceHandle& operator=(DeviceHandle&& other) noexcept;

  /// True if nothing was made, or if it was moved from.
  bool empty() const { return handle_ == nullptr; }
  /// As the backend's own libraries take it: of a stream of cuda the cudaStream_t.
  void* handle() const { return handle_; }

 protected:
  friend class DeviceMemory;
  const DeviceFunctions* functions_ = nullptr;
  int device_ = 0;
  void* handle_ = nullptr;
  void (*destroy_)(void* handle) = nullptr;
};

/// A mark on a stream, and the time at which the device came to it.
class DeviceEvent : public DeviceHandle {
 public:
  /// Waits until the device came to where this was recorded last; returns at once if it never was.
  Status wait() const;
  /// Waits as `wait`; milliseconds of the device's clock from `start` to this.
  /// @return DeviceError if one of them was never recorded
  Result<double> ms_since(const DeviceEvent& start) const;
};

/// Host memory that a device can copy from while the host goes on. It must outlive the copies.
class PinnedMemory : public DeviceHandle {
 public:
  void* data() const { return handle(); }
  int64_t size_bytes() const { return size_bytes_; }

 private:
  friend class DeviceMemory;
  int64_t size_bytes_ = 0;
};

/// A queue of work. What is enqueued on one stream runs in that order; streams run beside each
/// other, but for where one waits for an event of another. Before it is destroyed, its owner waits
/// for what was enqueued.
class DeviceStream : public DeviceHandle {
 public:
  /// Enqueues the mark; one that was recorded before moves here. A record that is captured in a
  /// graph is for `wait_for` in the same capture and for nothing else.
  Status record(const DeviceEvent& event) const;
  /// What is enqueued from now on runs after what was enqueued before the last record of `event`.
  /// The host does not wait. Without effect if the event was never recorded.
  Status wait_for(const DeviceEvent& event) const;
  /// Enqueues a copy of `size_bytes` that begin `offset_bytes` behind the beginning of `from`, and
  /// returns at once: they must stay as they are until the copy is done. In a graph, each launch
  /// copies what is there by then.
  /// @return InvalidArgument if `from` does not have so many bytes
  Status copy_in(void* to, const PinnedMemory& from, int64_t offset_bytes,
                 int64_t size_bytes) const;
  /// Enqueues setting each of the bytes to `value`.
  Status fill(void* to, uint8_t value, int64_t size_bytes) const;
  /// Waits for all that was enqueued.
  Status wait() const;
};

/// A sequence of calls that was captured from a stream, to be enqueued as one.
class DeviceGraph : public DeviceHandle {
 public:
  /// Enqueues all calls, with the memory that they were captured with. A graph runs once at a time:
  /// launches on one stream do.
  Status launch(const DeviceStream& stream) const;
};

}  // namespace vsa
