// Device on the CUDA runtime.
#include <cuda_runtime.h>
#include <fmt/format.h>

#include <cstring>
#include <deque>
#include <vector>

#include "cli/common/device.h"
#include "cli/common/failure.h"

namespace vsa::cli {
namespace {

void require(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // not left behind for the next call
  throw Failure(ExitCode::kFailed,
                fmt::format("--backend cuda: {}: {}", what, cudaGetErrorString(error)));
}

class DeviceBytes {
 public:
  explicit DeviceBytes(int64_t size) {
    const cudaError_t error = cudaMalloc(&data_, static_cast<size_t>(size > 0 ? size : 1));
    if (error == cudaSuccess) return;
    cudaGetLastError();
    throw Failure(
        ExitCode::kFailed,
        fmt::format("--backend cuda: device memory: expected {} more bytes to be free, got {}",
                    size, cudaGetErrorString(error)),
        "`nvidia-smi` shows what holds it; fewer heads or tokens need less");
  }
  ~DeviceBytes() { cudaFree(data_); }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

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

struct Device::Impl {
  struct Output {
    Tensor host;
    const void* device;
  };
  struct Table {
    Lut host, device;
  };

  cudaStream_t stream = nullptr;
  std::deque<DeviceBytes> memory;
  std::unique_ptr<DeviceBytes> workspace;
  int64_t workspace_bytes = 0;
  std::vector<Output> outputs;
  std::vector<Table> tables;

  void* allocate(int64_t bytes) { return memory.emplace_back(bytes).data(); }
  int32_t* copy(const int32_t* host, int64_t count) {
    void* to = allocate(count * 4);
    upload(to, host, count * 4);
    return static_cast<int32_t*>(to);
  }
  /// On the stream of the calls: a copy on the default stream may still be under way when a call
  /// on another stream begins. `from` is read before this returns, as it is pageable.
  void upload(void* to, const void* from, int64_t bytes) const {
    require(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyHostToDevice, stream),
            "copy");
  }
};

Device::Device() : impl_(std::make_unique<Impl>()) {
  require(cudaStreamCreateWithFlags(&impl_->stream, cudaStreamNonBlocking), "stream");
}

Device::~Device() {
  cudaStreamSynchronize(impl_->stream);
  cudaStreamDestroy(impl_->stream);
}

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
  Context context{.backend = BackendId::kCuda};
  context.workspace_query = &bytes;
  VSA_TRY(stage(context));
  if (impl_->workspace == nullptr || bytes > impl_->workspace_bytes) {
    wait();  // for calls that use the old one
    impl_->workspace = std::make_unique<DeviceBytes>(bytes);
    impl_->workspace_bytes = bytes;
  }
  return stage({.backend = BackendId::kCuda,
                .stream = impl_->stream,
                .workspace = {impl_->workspace->data(), bytes}});
}

void Device::wait() { require(cudaStreamSynchronize(impl_->stream), "a call"); }

void Device::fetch() {
  wait();
  for (const auto& [host, device] : impl_->outputs) {
    std::vector<std::byte> packed(static_cast<size_t>(num_bytes(host)));
    require(cudaMemcpy(packed.data(), device, packed.size(), cudaMemcpyDeviceToHost), "copy");
    const auto row_bytes = static_cast<size_t>(host.shape[3] * size_bytes(host.dtype));
    for_each_row(host, [&, to = host.data](int64_t there, int64_t from) {
      std::memcpy(static_cast<std::byte*>(to) + there, packed.data() + from, row_bytes);
    });
  }
  for (const auto& [host, device] : impl_->tables) {
    const auto rows = static_cast<size_t>(num_rows(host.dims));
    require(cudaMemcpy(host.index, device.index, rows * static_cast<size_t>(host.dims.pitch) * 4,
                       cudaMemcpyDeviceToHost),
            "copy");
    require(cudaMemcpy(host.count, device.count, rows * 4, cudaMemcpyDeviceToHost), "copy");
  }
}

int64_t Device::workspace_bytes() const { return impl_->workspace_bytes; }

void* Device::stream() const { return impl_->stream; }

std::string Device::pci_bus_id() const {
  int device = 0;
  require(cudaGetDevice(&device), "device");
  char id[32];
  require(cudaDeviceGetPCIBusId(id, sizeof id, device), "PCI bus id");
  return id;
}

struct DeviceClock::Impl {
  // Several times the L2 of any GPU (50 to 126 MB), and 0.1 ms or more at 5 TB/s or less.
  static constexpr int64_t kFlushBytes = int64_t{512} << 20;
  DeviceBytes flush{kFlushBytes};
  cudaEvent_t begin = nullptr, end = nullptr;
};

DeviceClock::DeviceClock() : impl_(std::make_unique<Impl>()) {
  require(cudaEventCreate(&impl_->begin), "event");
  require(cudaEventCreate(&impl_->end), "event");
}

DeviceClock::~DeviceClock() {
  cudaEventDestroy(impl_->begin);
  cudaEventDestroy(impl_->end);
}

void DeviceClock::start(const Device& device) {
  auto* stream = static_cast<cudaStream_t>(device.stream());
  require(cudaMemsetAsync(impl_->flush.data(), 0, Impl::kFlushBytes, stream), "memset");
  require(cudaEventRecord(impl_->begin, stream), "event");
}

double DeviceClock::stop_ms(const Device& device) {
  require(cudaEventRecord(impl_->end, static_cast<cudaStream_t>(device.stream())), "event");
  require(cudaEventSynchronize(impl_->end), "a call");
  float ms = 0.0F;
  require(cudaEventElapsedTime(&ms, impl_->begin, impl_->end), "event");
  return static_cast<double>(ms);
}

}  // namespace vsa::cli
