// DeviceMemory: the functions of a backend's table. Host-only.
#include "vsa/device_memory.h"

#include <fmt/format.h>

#include <utility>

#include "src/api/current_device.h"
#include "src/api/registry.h"

namespace vsa {
namespace {

Result<const DeviceFunctions*> functions_of(BackendId id) {
  const Result<const BackendTable*> table = usable_backend("device_memory", id);
  VSA_TRY(table.status());
  if ((*table)->device == nullptr) {
    return unsupported(fmt::format(
        "[device_memory] backend: expected one with memory of its own, got {}", name(id)));
  }
  return (*table)->device;
}

}  // namespace

Result<int> DeviceMemory::device_count(BackendId id) {
  const Result<const DeviceFunctions*> functions = functions_of(id);
  VSA_TRY(functions.status());
  int count = 0;
  VSA_TRY((*functions)->count(&count));
  return count;
}

Result<DeviceMemory> DeviceMemory::of(BackendId id, int device) {
  const Result<const DeviceFunctions*> functions = functions_of(id);
  VSA_TRY(functions.status());
  if (device == kCurrentDevice) {
    VSA_TRY((*functions)->current(&device));
  } else {
    int count = 0;
    VSA_TRY((*functions)->count(&count));
    if (device < 0 || device >= count) {
      return invalid_argument(
          fmt::format("[device_memory] device: expected 0 to {}, got {}", count - 1, device));
    }
  }
  DeviceMemory memory(id, *functions, device);
  Result<DeviceStream> stream = memory.make_stream();
  VSA_TRY(stream.status());
  memory.stream_ = std::move(*stream);
  return memory;
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : id_(other.id_),
      functions_(std::exchange(other.functions_, nullptr)),
      device_(other.device_),
      stream_(std::move(other.stream_)),
      blocks_(std::move(other.blocks_)) {}

DeviceMemory::~DeviceMemory() {
  if (functions_ == nullptr || stream_.empty()) return;
  static_cast<void>(stream_.wait());
  const CurrentDevice scope(*functions_, device_);
  for (void* block : blocks_) functions_->release(block);
}

Status DeviceMemory::refuse_in_capture(const char* what) const {
  if (!capturing_) return {};
  return invalid_argument(fmt::format(
      "[device_memory] {}: expected a call that only enqueues work of the device while a graph is "
      "captured, got one that allocates, waits or reads pageable memory",
      what));
}

Result<std::string> DeviceMemory::system_name() const {
  std::string name;
  VSA_TRY(functions_->system_name(device_, &name));
  return name;
}

Status DeviceMemory::make_current() const { return functions_->make_current(device_); }

Result<void*> DeviceMemory::allocate(int64_t size_bytes) {
  VSA_TRY(refuse_in_capture("allocate"));
  void* data = nullptr;
  VSA_TRY(on_device(*functions_, device_, functions_->allocate, size_bytes, &data));
  blocks_.push_back(data);
  return data;
}

Result<int64_t> DeviceMemory::available_bytes() const {
  int64_t size_bytes = 0;
  VSA_TRY(on_device(*functions_, device_, functions_->available, &size_bytes));
  return size_bytes;
}

Status DeviceMemory::release(void* data) {
  VSA_TRY(refuse_in_capture("release"));
  VSA_TRY(wait());
  const CurrentDevice scope(*functions_, device_);
  VSA_TRY(scope.status());
  std::erase(blocks_, data);
  functions_->release(data);
  return {};
}

Status DeviceMemory::copy_in(void* to, const void* from, int64_t size_bytes) const {
  VSA_TRY(refuse_in_capture("copy_in"));
  return on_device(*functions_, device_, functions_->copy_in, stream_.handle(), to, from,
                   size_bytes);
}

Status DeviceMemory::copy_out(void* to, const void* from, int64_t size_bytes) const {
  VSA_TRY(refuse_in_capture("copy_out"));
  return on_device(*functions_, device_, functions_->copy_out, stream_.handle(), to, from,
                   size_bytes);
}

Status DeviceMemory::wait() const {
  VSA_TRY(refuse_in_capture("wait"));
  return stream_.wait();
}

template <class Handle>
Result<Handle> DeviceMemory::make(Status (*create)(void** handle),
                                  void (*destroy)(void* handle)) const {
  Handle made;
  made.functions_ = functions_;
  made.device_ = device_;
  made.destroy_ = destroy;
  VSA_TRY(on_device(*functions_, device_, create, &made.handle_));
  return made;
}

Result<DeviceStream> DeviceMemory::make_stream() const {
  return make<DeviceStream>(functions_->create_stream, functions_->destroy_stream);
}

Result<DeviceEvent> DeviceMemory::make_event() const {
  return make<DeviceEvent>(functions_->create_event, functions_->destroy_event);
}

Result<PinnedMemory> DeviceMemory::make_pinned(int64_t size_bytes) const {
  VSA_TRY(refuse_in_capture("make_pinned"));
  PinnedMemory memory;
  memory.functions_ = functions_;
  memory.device_ = device_;
  memory.destroy_ = functions_->release_pinned;
  VSA_TRY(
      on_device(*functions_, device_, functions_->allocate_pinned, size_bytes, &memory.handle_));
  memory.size_bytes_ = size_bytes;
  return memory;
}

Result<DeviceGraph> DeviceMemory::capture(const std::function<Status()>& enqueue) {
  const GraphFunctions* graphs = functions_->graphs;
  if (graphs == nullptr) {
    return unsupported(
        fmt::format("[device_memory] capture: expected a backend with graphs, got {}", name(id_)));
  }
  VSA_TRY(refuse_in_capture("capture"));
  const CurrentDevice scope(*functions_, device_);
  VSA_TRY(scope.status());
  DeviceGraph graph;
  graph.functions_ = functions_;
  graph.device_ = device_;
  graph.destroy_ = graphs->destroy;
  VSA_TRY(graphs->begin_capture(stream_.handle()));
  capturing_ = true;
  const auto end = [&] {
    capturing_ = false;
    return graphs->end_capture(stream_.handle(), &graph.handle_);
  };
  Status status;
  try {
    status = enqueue();
  } catch (...) {
    static_cast<void>(end());
    throw;
  }
  const Status ended = end();
  VSA_TRY(status);  // says more than that the capture failed
  VSA_TRY(ended);
  return graph;
}

}  // namespace vsa
