#include "tests/gpu/device.h"

#include <algorithm>

namespace vsa::test {
namespace {

constexpr int64_t kGuardBytes = 4096;
constexpr std::byte kPoison{0xFF};

int64_t span_bytes(const ConstTensor& t) {
  int64_t last = 0;
  for (size_t i = 0; i < 4; ++i) last += (t.shape[i] - 1) * t.stride[i];
  return (last + 1) * size_bytes(t.dtype);
}

int64_t rows_of(const LutDims& d) { return d.batch * d.num_heads * d.num_q_tiles; }

std::vector<std::byte> copy_back(const std::byte* from, int64_t size) {
  std::vector<std::byte> bytes(static_cast<size_t>(size));
  expect_cuda(cudaMemcpy(bytes.data(), from, bytes.size(), cudaMemcpyDeviceToHost));
  return bytes;
}

BusyStream* busy_stream = nullptr;  // the one that lives

bool all_poison(const std::byte* from, int64_t size) {
  return std::ranges::all_of(copy_back(from, size), [](std::byte b) { return b == kPoison; });
}

}  // namespace

bool has_gpu() {
  const auto all = backends();
  return std::ranges::any_of(
      all, [](const BackendInfo& info) { return info.id == BackendId::kCuda && info.available; });
}

void expect_cuda(cudaError_t error) { EXPECT_EQ(error, cudaSuccess) << cudaGetErrorString(error); }

DeviceBytes::DeviceBytes(int64_t size) : size_(std::max<int64_t>(size, 1)) {
  expect_cuda(cudaMalloc(&data_, static_cast<size_t>(size_)));
  expect_cuda(cudaMemset(data_, 0xFF, static_cast<size_t>(size_)));
}
DeviceBytes::~DeviceBytes() { cudaFree(data_); }
DeviceBytes::DeviceBytes(DeviceBytes&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(other.size_) {}

DeviceTensor::DeviceTensor(const ConstTensor& host)
    : span_bytes_(span_bytes(host)), memory_(span_bytes_ + 2 * kGuardBytes) {
  view_.data = memory_.data() + kGuardBytes;
  view_.dtype = host.dtype;
  view_.shape = host.shape;
  view_.stride = host.stride;
  expect_cuda(
      cudaMemcpy(view_.data, host.data, static_cast<size_t>(span_bytes_), cudaMemcpyHostToDevice));
}

void DeviceTensor::download(const Tensor& host) const {
  expect_cuda(
      cudaMemcpy(host.data, view_.data, static_cast<size_t>(span_bytes_), cudaMemcpyDeviceToHost));
  EXPECT_TRUE(all_poison(memory_.data(), kGuardBytes)) << "written before the tensor";
  EXPECT_TRUE(all_poison(memory_.data() + kGuardBytes + span_bytes_, kGuardBytes))
      << "written after the tensor";
}

DeviceLut::DeviceLut(const ConstLut& host)
    : dims_(host.dims), index_(rows_of(dims_) * dims_.pitch * 4), count_(rows_of(dims_) * 4) {
  expect_cuda(cudaMemcpy(index_.data(), host.index, static_cast<size_t>(index_.size()),
                         cudaMemcpyHostToDevice));
  expect_cuda(cudaMemcpy(count_.data(), host.count, static_cast<size_t>(count_.size()),
                         cudaMemcpyHostToDevice));
}

Lut DeviceLut::view() const {
  return {reinterpret_cast<int32_t*>(index_.data()), reinterpret_cast<int32_t*>(count_.data()),
          dims_};
}

void DeviceLut::download(const Lut& host) const {
  expect_cuda(cudaMemcpy(host.index, index_.data(), static_cast<size_t>(index_.size()),
                         cudaMemcpyDeviceToHost));
  expect_cuda(cudaMemcpy(host.count, count_.data(), static_cast<size_t>(count_.size()),
                         cudaMemcpyDeviceToHost));
}

void run_on_gpu(const std::function<Status(const Context&)>& call) {
  int64_t size = -1;
  Context context{.backend = BackendId::kCuda};
  context.workspace_query = &size;
  throw_if_error(call(context));
  ASSERT_GE(size, 0);
  const DeviceBytes memory(size + 2 * kGuardBytes);
  cudaStream_t stream = nullptr;
  expect_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  expect_cuda(cudaDeviceSynchronize());  // the inputs were copied on the default stream
  if (busy_stream != nullptr) busy_stream->start();
  context = {.backend = BackendId::kCuda,
             .stream = stream,
             .workspace = {.data = memory.data() + kGuardBytes, .size_bytes = size}};
  const Status status = call(context);
  if (busy_stream != nullptr) busy_stream->count_call();
  expect_cuda(cudaStreamSynchronize(stream));
  expect_cuda(cudaStreamDestroy(stream));
  throw_if_error(status);
  EXPECT_TRUE(all_poison(memory.data(), kGuardBytes)) << "written before the workspace";
  EXPECT_TRUE(all_poison(memory.data() + kGuardBytes + size, kGuardBytes))
      << "written after the workspace";
}

BusyStream::BusyStream() {
  EXPECT_EQ(busy_stream, nullptr);
  expect_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  busy_stream = this;
}
BusyStream::~BusyStream() {
  busy_stream = nullptr;
  expect_cuda(cudaStreamSynchronize(stream_));
  expect_cuda(cudaStreamDestroy(stream_));
}

void BusyStream::count_call() {
  const cudaError_t state = cudaStreamQuery(stream_);
  if (state != cudaErrorNotReady) return expect_cuda(state);
  cudaGetLastError();  // "not ready" stays behind as an error
  ++calls_beside_;
}

void BusyStream::start() {
  constexpr int kTimes = 40;  // of some 70 us
  for (int i = 0; i < kTimes; ++i) {
    expect_cuda(cudaMemsetAsync(memory_.data(), i, static_cast<size_t>(memory_.size()), stream_));
  }
}

}  // namespace vsa::test
