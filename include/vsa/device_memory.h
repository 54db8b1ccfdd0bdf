// Memory of the device that a backend computes on, and a stream for its calls: for programs that
// have no other way to them. Host-only.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "vsa/backend.h"
#include "vsa/device_stream.h"

namespace vsa {

/// Memory on one device of a backend, and a stream. Both end with the object, once all that was
/// enqueued on the stream is done.
///
/// All members work on that device whatever device is current on the calling thread, and leave it
/// current; from any thread, by one at a time. So do the stages, which run on the device that their
/// tensors lie on: calls with `context()` need no preparation on any thread. Code that calls the
/// device's own libraries, for instance by vendor_function, calls `make_current` before.
class DeviceMemory {
 public:
  /// The device that is current on the calling thread; the first one unless somebody changed that.
  static constexpr int kCurrentDevice = -1;

  /// How many devices the backend has here.
  /// @return Unsupported (the backend's tensors are in host memory, or it cannot run here) |
  /// DeviceError
  static Result<int> device_count(BackendId id);
  /// @param device  0 to device_count - 1, or kCurrentDevice
  /// @return errors of device_count | InvalidArgument
  static Result<DeviceMemory> of(BackendId id, int device = kCurrentDevice);
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&&) = delete;

  int device() const { return device_; }
  /// By which the tools of the system know the device: nvidia-smi by this PCI bus id.
  Result<std::string> system_name() const;
  /// Makes the device current on the calling thread, until somebody changes that.
  Status make_current() const;

  /// Uninitialised, at a multiple of 256 bytes. @return OutOfMemory | DeviceError
  Result<void*> allocate(int64_t size_bytes);
  /// How much the device could still give. @return DeviceError
  Result<int64_t> available_bytes() const;
  /// Waits for all that was enqueued, and frees what `allocate` gave.
  Status release(void* data);
  /// Enqueues a copy to the device; `from` may change once it returns.
  Status copy_in(void* to, const void* from, int64_t size_bytes) const;
  /// Copies from the device, once all that was enqueued before is done.
  Status copy_out(void* to, const void* from, int64_t size_bytes) const;
  /// Waits for all that was enqueued.
  Status wait() const;

  /// The stream of this object, for its functions beyond those above.
  const DeviceStream& stream() const { return stream_; }
  /// Another stream of the device.
  Result<DeviceStream> make_stream() const;
  Result<DeviceEvent> make_event() const;
  /// @return OutOfMemory | DeviceError
  Result<PinnedMemory> make_pinned(int64_t size_bytes) const;

  /// Captures all that `enqueue` enqueues on the stream into a graph, in place of running it. Only
  /// calls of this thread are affected. Members that allocate, wait for the device, or read memory
  /// of the host that is not pinned are refused meanwhile (InvalidArgument), because a graph cannot
  /// contain them. A call that has not run before may set something up in a way that cannot be
  /// captured, so call `enqueue` once before.
  /// @return Unsupported if the backend has no graphs | what `enqueue` returns unless it is ok
  Result<DeviceGraph> capture(const std::function<Status()>& enqueue);

  /// The backend and the stream, for calls on this memory. Workspace has to be added.
  Context context() const { return {.backend = id_, .stream = stream_.handle()}; }

 private:
  DeviceMemory(BackendId id, const DeviceFunctions* functions, int device)
      : id_(id), functions_(functions), device_(device) {}
  Status refuse_in_capture(const char* what) const;
  template <class Handle>
  Result<Handle> make(Status (*create)(void** handle), void (*destroy)(void* handle)) const;

  BackendId id_;
  const DeviceFunctions* functions_;  // null: moved from
  int device_;
  bool capturing_ = false;
  DeviceStream stream_;
  std::vector<void*> blocks_;
};

}  // namespace vsa
