// Memory of one device for the models that compute there. Host-only.
#include "runtime/device/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace vsa::device {

Memory::Memory(DeviceMemory memory, const BackendTraits& traits, DType token_dtype)
    : memory_(std::move(memory)), traits_(traits), token_dtype_(token_dtype) {}

Memory::~Memory() {
  if (workspace_.data != nullptr) give_back(workspace_.data, workspace_.size_bytes);
}

Result<std::shared_ptr<Memory>> Memory::of(BackendId id, int device) {
  const Result<BackendTraits> traits = backend_traits(id);
  VSA_TRY(traits.status());
  const bool bf16 = traits->token_dtypes.contains(DType::kBF16);
  if (!bf16 && !traits->token_dtypes.contains(DType::kF32)) {
    return unsupported(
        fmt::format("[runtime] backend: expected one that takes bf16 or f32, got {}", name(id)));
  }
  Result<DeviceMemory> memory = DeviceMemory::of(id, device);
  VSA_TRY(memory.status());
  return std::shared_ptr<Memory>(
      new Memory(std::move(*memory), *traits, bf16 ? DType::kBF16 : DType::kF32));
}

Result<void*> Memory::take(int64_t size_bytes) {
  const Result<void*> data = memory_.allocate(size_bytes);
  if (data.status().code() == StatusCode::kOutOfMemory) {
    return Status(StatusCode::kOutOfMemory,
                  fmt::format("{}; {:.2f} GiB are taken by this run", data.status().message(),
                              static_cast<double>(bytes_taken_) / (1 << 30)));
  }
  VSA_TRY(data.status());
  bytes_taken_ += size_bytes;
  most_bytes_taken_ = std::max(most_bytes_taken_, bytes_taken_);
  return *data;
}

void Memory::give_back(void* data, int64_t size_bytes) {
  // A device that no longer answers says so in the next call that can report it.
  static_cast<void>(memory_.release(data));
  bytes_taken_ -= size_bytes;
}

Result<Array> Memory::array(int64_t size_bytes) {
  const Result<void*> data = take(size_bytes);
  VSA_TRY(data.status());
  Array array;
  array.owner_ = shared_from_this();
  array.data_ = *data;
  array.size_bytes_ = size_bytes;
  return array;
}

Status Memory::call(const Call& what, const std::function<Status(const Context&)>& enqueue) {
  if (call_times_ == nullptr) return enqueue(context());
  VSA_TRY(memory_.wait());
  const auto start = std::chrono::steady_clock::now();
  VSA_TRY(enqueue(context()));
  VSA_TRY(memory_.wait());
  const std::chrono::duration<double, std::milli> passed = std::chrono::steady_clock::now() - start;
  CallTime& time = (*call_times_)[what.kind];
  ++time.calls;
  time.ms += passed.count();
  time.flops += what.flops;
  time.bytes += what.bytes;
  return {};
}

Context Memory::context() {
  Context context = memory_.context();
  context.workspace_source = {
      .take = [](void* self,
                 int64_t bytes) { return static_cast<Memory*>(self)->workspace(bytes); },
      .user = this};
  return context;
}

Workspace Memory::workspace(int64_t size_bytes) {
  if (size_bytes <= workspace_.size_bytes) return workspace_;
  if (workspace_.data != nullptr) give_back(workspace_.data, workspace_.size_bytes);
  workspace_ = {};
  const Result<void*> data = take(size_bytes);
  if (data.ok()) workspace_ = {*data, size_bytes};
  ++workspace_number_;
  return workspace_;
}

}  // namespace vsa::device
