// Finding devices, and saying why there is none. Host-only.
#include "src/cuda/device.h"

#include <fmt/format.h>

#include <atomic>
#include <string>

#include "src/cuda/launch.h"

namespace vsa::cuda {
namespace {

/// Compute capability as major * 10 + minor; negative if it cannot be told.
int capability_of(int device) {
  int major = 0;
  int minor = 0;
  if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) != cudaSuccess) {
    cudaGetLastError();
    return -1;
  }
  return major * 10 + minor;
}

constexpr int kCapability = 90;

/// Slow, as the driver gathers all properties.
std::string name_of(int device) {
  cudaDeviceProp properties{};
  if (cudaGetDeviceProperties(&properties, device) == cudaSuccess) return properties.name;
  cudaGetLastError();
  return fmt::format("device {}", device);
}

}  // namespace

BackendInfo info() {
  BackendInfo info{.id = BackendId::kCuda, .available = false, .detail = {}};
  // Every call asks; a device that was there stays.
  static std::atomic<const std::string*> found = nullptr;
  if (const std::string* name = found.load(std::memory_order_acquire)) {
    info.available = true;
    info.detail = *name;
    return info;
  }
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) {
    cudaGetLastError();  // not left behind for the caller's own checks
    // A machine without a driver gets this error, too.
    const std::string why = error == cudaErrorInsufficientDriver
                                ? fmt::format("no NVIDIA driver, or one older than CUDA {}.{}",
                                              CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10)
                                : cudaGetErrorString(error);
    info.detail = fmt::format("compiled for sm_90a, but no device: {}", why);
    return info;
  }
  for (int device = 0; device < count; ++device) {
    if (capability_of(device) != kCapability) continue;
    static const std::string name = name_of(device) + " (sm_90a)";
    found.store(&name, std::memory_order_release);
    info.available = true;
    info.detail = name;
    return info;
  }
  info.detail = fmt::format(
      "compiled for sm_90a, but none of {} devices is of compute capability 9.0", count);
  return info;
}

Status check_memory(std::string_view operation, const NamedMemory& memory,
                    const cudaPointerAttributes& attributes, int device) {
  const auto& [argument, data] = memory;
  if (attributes.type == cudaMemoryTypeManaged) return {};
  if (attributes.type != cudaMemoryTypeDevice) {
    return invalid_argument(fmt::format("[{}] {}: expected device memory, got host memory at {}",
                                        operation, argument, data));
  }
  if (device < 0 || attributes.device == device) return {};
  return invalid_argument(
      fmt::format("[{}] {}: expected memory of device {}, which the call runs on, got memory of "
                  "device {} at {}",
                  operation, argument, device, attributes.device, data));
}

DeviceScope::DeviceScope(std::string_view operation, std::initializer_list<NamedMemory> memory)
    : status_(enter(operation, memory)) {}

Status DeviceScope::enter(std::string_view operation, std::initializer_list<NamedMemory> memory) {
  int device = -1;
  for (const NamedMemory& x : memory) {
    if (x.data == nullptr) continue;
    cudaPointerAttributes attributes{};
    VSA_TRY(check(operation, cudaPointerGetAttributes(&attributes, x.data)));
    VSA_TRY(check_memory(operation, x, attributes, device));
    if (device < 0) device = attributes.device;
  }
  if (const int capability = capability_of(device); capability != kCapability) {
    return unsupported(
        fmt::format("[{}] device: expected one of compute capability 9.0, got device {} of {}.{}",
                    operation, device, capability / 10, capability % 10));
  }
  int current = 0;
  VSA_TRY(check(operation, cudaGetDevice(&current)));
  if (current != device) {
    VSA_TRY(check(operation, cudaSetDevice(device)));
    before_ = current;
  }
  return check(operation,
               cudaDeviceGetAttribute(&num_sms_, cudaDevAttrMultiProcessorCount, device));
}

DeviceScope::~DeviceScope() {
  if (before_ >= 0) cudaSetDevice(before_);
}

}  // namespace vsa::cuda
