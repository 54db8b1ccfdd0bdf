// DeviceMemory: the functions of a backend's table. Host-only.
#include "vsa/device_memory.h"

#include <fmt/format.h>

#include <utility>

#include "src/api/registry.h"

namespace vsa {

Result<DeviceMemory> DeviceMemory::of(BackendId id) {
  const Result<const BackendTable*> table = usable_backend("device_memory", id);
  VSA_TRY(table.status());
  if ((*table)->device == nullptr) {
    return unsupported(fmt::format(
        "[device_memory] backend: expected one with memory of its own, got {}", name(id)));
  }
  DeviceMemory memory(id, (*table)->device);
  VSA_TRY(memory.functions_->create_stream(&memory.stream_));
  return memory;
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : id_(other.id_),
      functions_(std::exchange(other.functions_, nullptr)),
      stream_(std::exchange(other.stream_, nullptr)),
      blocks_(std::move(other.blocks_)) {}

DeviceMemory::~DeviceMemory() {
  if (functions_ == nullptr) return;
  static_cast<void>(wait());
  for (void* block : blocks_) functions_->release(block);
  functions_->destroy_stream(stream_);
}

Result<void*> DeviceMemory::allocate(int64_t size_bytes) {
  void* data = nullptr;
  VSA_TRY(functions_->allocate(size_bytes, &data));
  blocks_.push_back(data);
  return data;
}

Result<int64_t> DeviceMemory::available_bytes() const {
  int64_t size_bytes = 0;
  VSA_TRY(functions_->available(&size_bytes));
  return size_bytes;
}

Status DeviceMemory::release(void* data) {
  VSA_TRY(wait());
  std::erase(blocks_, data);
  functions_->release(data);
  return {};
}

Status DeviceMemory::copy_in(void* to, const void* from, int64_t size_bytes) const {
  return functions_->copy_in(stream_, to, from, size_bytes);
}
Status DeviceMemory::copy_out(void* to, const void* from, int64_t size_bytes) const {
  return functions_->copy_out(stream_, to, from, size_bytes);
}
Status DeviceMemory::wait() const { return functions_->wait(stream_); }

}  // namespace vsa
