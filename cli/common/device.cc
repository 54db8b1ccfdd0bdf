// Runs calls on tensors in device memory, with copies there and back. Host-only.
#include "cli/common/device.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>
#include <vector>

#include "cli/common/failure.h"
#include "vsa/device_memory.h"

namespace vsa::cli {
namespace {

/// Turns an error of a backend into a Failure.
Failure failure(BackendId backend, std::string_view what, const Status& status) {
  return {ExitCode::kFailed,
          fmt::format("--backend {}: {}: {}", name(backend), what, status.message())};
}

DeviceMemory memory_of(BackendId backend) {
  Result<DeviceMemory> memory = DeviceMemory::of(backend);
  if (!memory.ok()) throw failure(backend, "stream", memory.status());
  return std::move(memory).value();
}

Dims dims_of(const ConstTensor& t) {
  return {
      .batch = t.shape[0], .num_heads = t.shape[1], .seq_len = t.shape[2], .head_dim = t.shape[3]};
}

/// Calls visit(offset of a row of `t` in bytes, offset of that row in contiguous memory).
template <class Visit>
void for_each_row(const ConstTensor& t, const Visit& visit) {
  const int64_t element = size_bytes(t.dtype);
  int64_t row = 0;
  for (int64_t b = 0; b < t.shape[0]; ++b) {
    for (int64_t h = 0; h < t.shape[1]; ++h) {
      for (int64_t s = 0; s < t.shape[2]; ++s, row += t.shape[3] * element) {
        visit((b * t.stride[0] + h * t.stride[1] + s * t.stride[2]) * element, row);
      }
    }
  }
}

int64_t num_bytes(const ConstTensor& t) { return t.num_elements() * size_bytes(t.dtype); }

int64_t num_rows(const LutDims& d) { return d.batch * d.num_heads * d.num_q_tiles; }

}  // namespace

bool is_on_device(BackendId backend) {
  const Result<BackendTraits> traits = backend_traits(backend);
  return traits.ok() && traits->memory == MemoryKind::kDevice;
}

struct Device::Impl {
  struct Output {
    Tensor host;
    const void* device;
  };
  struct Table {
    Lut host, device;
  };

  explicit Impl(BackendId id) : backend(id), memory(memory_of(id)) {}

  const BackendId backend;
  DeviceMemory memory;
  Workspace workspace;
  std::vector<Output> outputs;
  std::vector<Table> tables;

  void require(const Status& status, std::string_view what) const {
    if (!status.ok()) throw failure(backend, what, status);
  }
  void* allocate(int64_t bytes) {
    const Result<void*> data = memory.allocate(bytes);
    if (data.ok()) return *data;
    if (data.status().code() != StatusCode::kOutOfMemory) require(data.status(), "device memory");
    throw Failure(ExitCode::kFailed,
                  fmt::format("--backend {}: device memory: expected {} more bytes to be free, got "
                              "out of memory",
                              name(backend), bytes),
                  "`nvidia-smi` shows what holds it; fewer heads or tokens need less");
  }
  int32_t* copy(const int32_t* host, int64_t count) {
    void* to = allocate(count * 4);
    upload(to, host, count * 4);
    return static_cast<int32_t*>(to);
  }
  void upload(void* to, const void* from, int64_t bytes) const {
    require(memory.copy_in(to, from, bytes), "copy");
  }
  void download(void* to, const void* from, int64_t bytes) const {
    require(memory.copy_out(to, from, bytes), "copy");
  }
};

Device::Device(BackendId backend) : impl_(std::make_unique<Impl>(backend)) {}

Device::~Device() = default;

ConstTensor Device::in(const ConstTensor& host) {
  if (host.empty()) return host;
  std::vector<std::byte> packed(static_cast<size_t>(num_bytes(host)));
  const auto row_bytes = static_cast<size_t>(host.shape[3] * size_bytes(host.dtype));
  for_each_row(host, [&](int64_t from, int64_t to) {
    std::memcpy(packed.data() + to, static_cast<const std::byte*>(host.data) + from, row_bytes);
  });
  void* data = impl_->allocate(num_bytes(host));
  impl_->upload(data, packed.data(), num_bytes(host));
  return ConstTensor::bhsd(data, host.dtype, dims_of(host));
}

Gate Device::in(const Gate& host) {
  return host.is_tensor() ? Gate::tensor(in(host.as_tensor())) : host;
}

ConstLut Device::in(const ConstLut& host) {
  if (host.empty()) return host;
  const int64_t rows = num_rows(host.dims);
  ConstLut lut = host;
  lut.index = impl_->copy(host.index, rows * host.dims.pitch);
  lut.count = impl_->copy(host.count, rows);
  return lut;
}

Tensor Device::out(const Tensor& host) {
  if (host.empty()) return host;
  void* data = impl_->allocate(num_bytes(host));
  impl_->outputs.push_back({host, data});
  return Tensor::bhsd(data, host.dtype, dims_of(host));
}

Lut Device::out(const Lut& host) {
  if (host.empty()) return host;
  const int64_t rows = num_rows(host.dims);
  Lut lut = host;
  lut.index = static_cast<int32_t*>(impl_->allocate(rows * host.dims.pitch * 4));
  lut.count = static_cast<int32_t*>(impl_->allocate(rows * 4));
  impl_->tables.push_back({host, lut});
  return lut;
}

Tensor Device::in_out(const Tensor& host) {
  if (host.empty()) return host;
  const ConstTensor copy = in(host);
  impl_->outputs.push_back({host, copy.data});
  return Tensor::bhsd(const_cast<void*>(copy.data), host.dtype, dims_of(host));
}

Status Device::call(const std::function<Status(const Context&)>& stage) {
  int64_t bytes = 0;
  Context context = impl_->memory.context();
  context.workspace_query = &bytes;
  VSA_TRY(stage(context));
  Workspace& workspace = impl_->workspace;
  if (workspace.data == nullptr || bytes > workspace.size_bytes) {
    if (workspace.data != nullptr) impl_->require(impl_->memory.release(workspace.data), "a call");
    workspace = {};
    workspace = {impl_->allocate(bytes), bytes};
  }
  context.workspace_query = nullptr;
  context.workspace = workspace;
  return stage(context);
}

void Device::wait() { impl_->require(impl_->memory.wait(), "a call"); }

void Device::fetch() {
  for (const auto& [host, device] : impl_->outputs) {
    std::vector<std::byte> packed(static_cast<size_t>(num_bytes(host)));
    impl_->download(packed.data(), device, std::ssize(packed));
    const auto row_bytes = static_cast<size_t>(host.shape[3] * size_bytes(host.dtype));
    for_each_row(host, [&, to = host.data](int64_t there, int64_t from) {
      std::memcpy(static_cast<std::byte*>(to) + there, packed.data() + from, row_bytes);
    });
  }
  for (const auto& [host, device] : impl_->tables) {
    const int64_t rows = num_rows(host.dims);
    impl_->download(host.index, device.index, rows * host.dims.pitch * 4);
    impl_->download(host.count, device.count, rows * 4);
  }
}

BackendId Device::backend() const { return impl_->backend; }

int64_t Device::workspace_bytes() const { return impl_->workspace.size_bytes; }

const DeviceStream& Device::stream() const { return impl_->memory.stream(); }

std::string Device::system_name() const {
  Result<std::string> name = impl_->memory.system_name();
  impl_->require(name.status(), "device");
  return std::move(name).value();
}

}  // namespace vsa::cli
