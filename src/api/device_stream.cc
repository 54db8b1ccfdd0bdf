// Streams, events, graphs and pinned memory: the functions of a backend's table. Host-only.
#include "vsa/device_stream.h"

#include <fmt/format.h>

#include <utility>

#include "src/api/current_device.h"

namespace vsa {

DeviceHandle::~DeviceHandle() {
  if (handle_ == nullptr) return;
  const CurrentDevice scope(*functions_, device_);
  destroy_(handle_);
}

DeviceHandle::DeviceHandle(DeviceHandle&& other) noexcept
    : functions_(other.functions_),
      device_(other.device_),
      handle_(std::exchange(other.handle_, nullptr)),
      destroy_(other.destroy_) {}

DeviceHandle& DeviceHandle::operator=(DeviceHandle&& other) noexcept {
  std::swap(functions_, other.functions_);
  std::swap(device_, other.device_);
  std::swap(handle_, other.handle_);
  std::swap(destroy_, other.destroy_);
  return *this;
}

Status DeviceEvent::wait() const {
  return on_device(*functions_, device_, functions_->wait_event, handle_);
}

Result<double> DeviceEvent::ms_since(const DeviceEvent& start) const {
  VSA_TRY(wait());
  double ms = 0.0;
  VSA_TRY(on_device(*functions_, device_, functions_->elapsed_ms, start.handle(), handle_, &ms));
  return ms;
}

Status DeviceStream::record(const DeviceEvent& event) const {
  return on_device(*functions_, device_, functions_->record, handle_, event.handle());
}

Status DeviceStream::wait_for(const DeviceEvent& event) const {
  return on_device(*functions_, device_, functions_->wait_for, handle_, event.handle());
}

Status DeviceStream::copy_in(void* to, const PinnedMemory& from, int64_t offset_bytes,
                             int64_t size_bytes) const {
  if (offset_bytes < 0 || size_bytes < 0 || offset_bytes > from.size_bytes() - size_bytes) {
    return invalid_argument(
        fmt::format("[device_memory] from: expected at least {} bytes behind the first {}, got {} "
                    "bytes in all",
                    size_bytes, offset_bytes, from.size_bytes()));
  }
  const void* begin = static_cast<const std::byte*>(from.data()) + offset_bytes;
  return on_device(*functions_, device_, functions_->copy_in_pinned, handle_, to, begin,
                   size_bytes);
}

Status DeviceStream::fill(void* to, uint8_t value, int64_t size_bytes) const {
  return on_device(*functions_, device_, functions_->fill, handle_, to, value, size_bytes);
}

Status DeviceStream::wait() const {
  return on_device(*functions_, device_, functions_->wait, handle_);
}

Status DeviceGraph::launch(const DeviceStream& stream) const {
  return on_device(*functions_, device_, functions_->graphs->launch, handle_, stream.handle());
}

}  // namespace vsa
