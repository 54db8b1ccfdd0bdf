// Memory of the device that a backend computes on, and a stream for its calls: for programs that
// have no other way to them. Host-only.
#pragma once

#include <vector>

#include "vsa/backend.h"

namespace vsa {

struct DeviceFunctions;

/// Memory on the device that a backend runs on by default, and a stream. Both end with the object,
/// once all that was enqueued is done.
class DeviceMemory {
 public:
  /// @return Unsupported (the backend's tensors are in host memory, or it cannot run here) |
  /// DeviceError
  static Result<DeviceMemory> of(BackendId id);
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&&) = delete;

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

  /// The backend and the stream, for calls on this memory. Workspace has to be added.
  Context context() const { return {.backend = id_, .stream = stream_}; }

 private:
  DeviceMemory(BackendId id, const DeviceFunctions* functions) : id_(id), functions_(functions) {}
  BackendId id_;
  const DeviceFunctions* functions_;  // null: moved from
  void* stream_ = nullptr;
  std::vector<void*> blocks_;
};

}  // namespace vsa
