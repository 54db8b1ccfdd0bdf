// DeviceClock, and what nvidia-smi calls the device, by the CUDA runtime.
#include <cuda_runtime.h>
#include <fmt/format.h>

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

}  // namespace

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
  void* flush = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;
};

DeviceClock::DeviceClock() : impl_(std::make_unique<Impl>()) {
  require(cudaMalloc(&impl_->flush, Impl::kFlushBytes), "memory that empties the L2 cache");
  require(cudaEventCreate(&impl_->begin), "event");
  require(cudaEventCreate(&impl_->end), "event");
}

DeviceClock::~DeviceClock() {
  cudaFree(impl_->flush);
  cudaEventDestroy(impl_->begin);
  cudaEventDestroy(impl_->end);
}

void DeviceClock::start(const Device& device) {
  auto* stream = static_cast<cudaStream_t>(device.stream());
  require(cudaMemsetAsync(impl_->flush, 0, Impl::kFlushBytes, stream), "memset");
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
