// Finding devices, and saying why there is none. Host-only.
#include "src/cuda/support/device.h"

#include <fmt/format.h>

#include <atomic>
#include <string>

#include "src/cuda/family.h"
#include "src/cuda/support/launch.h"

namespace vsa::cuda {
namespace {

/// cudaGetDeviceProperties is slow, because the driver gathers all properties.
std::string name_of(int device) {
  cudaDeviceProp properties{};
  if (cudaGetDeviceProperties(&properties, device) == cudaSuccess) return properties.name;
  cudaGetLastError();
  return fmt::format("device {}", device);
}

// add_field adds the device memory of one field of the arguments of a call, if it has any.
template <class AnyTensor>
requires requires(AnyTensor t) { t.data; }
void add_field(MemoryList& list, std::string_view name, const AnyTensor& tensor) {
  list.add(name, tensor.data);
}
void add_field(MemoryList& list, std::string_view name, const Gate& gate) {
  if (gate.is_tensor()) list.add(name, gate.as_tensor().data);
}
template <class AnyLut>
requires requires(AnyLut lut) { lut.index; }
void add_field(MemoryList& list, std::string_view name, const AnyLut& lut) {
  list.add(name, lut.index);
  list.add(name, lut.count);
}
void add_field(MemoryList&, std::string_view, const TilePlan*) {}
void add_field(MemoryList&, std::string_view, const SelectOptions&) {}  // lists are host memory
void add_field(MemoryList&, std::string_view, const std::optional<float>&) {}
template <class Number>
requires(std::is_arithmetic_v<Number> ||
         std::is_enum_v<Number>) void add_field(MemoryList&, std::string_view, const Number&) {}

}  // namespace

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

BackendInfo info() {
  BackendInfo info{.id = BackendId::kCuda, .available = false, .detail = {}};
  // Every call of a stage comes here. A device that was found once is not looked for again.
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
    // CUDA gives this error where there is no driver at all, too.
    const std::string why = error == cudaErrorInsufficientDriver
                                ? fmt::format("no NVIDIA driver, or one older than CUDA {}.{}",
                                              CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10)
                                : cudaGetErrorString(error);
    info.detail = fmt::format("compiled for {}, but no device: {}", family_names(", "), why);
    return info;
  }
  for (int device = 0; device < count; ++device) {
    const Family* family = family_of(capability_of(device));
    if (family == nullptr) continue;
    static const std::string name = fmt::format("{} ({})", name_of(device), family->name);
    found.store(&name, std::memory_order_release);
    info.available = true;
    info.detail = name;
    return info;
  }
  info.detail = fmt::format("compiled for {}, but none of {} devices is of compute capability {}",
                            family_names(", "), count, family_capabilities());
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

void MemoryList::add(std::string_view argument, const void* data) {
  all_.emplace_back(argument, data);
}

// More than the fields of attention_backward, which has the most, and its workspace.
constexpr size_t kMostMemory = 32;

#define F(field) add_field(*this, #field, args.field);
#define VSA_DEFINE_MEMORY_LIST(stage, Args, fields) \
  MemoryList::MemoryList(const Args& args) {        \
    all_.reserve(kMostMemory);                      \
    fields                                          \
  }
VSA_FOR_EACH_STAGE(VSA_DEFINE_MEMORY_LIST)
#undef F

DeviceScope::DeviceScope(std::string_view operation, std::span<const NamedMemory> memory)
    : status_(enter(operation, memory)) {}

Status DeviceScope::enter(std::string_view operation, std::span<const NamedMemory> memory) {
  int device = -1;
  for (const NamedMemory& x : memory) {
    if (x.data == nullptr) continue;
    cudaPointerAttributes attributes{};
    VSA_TRY(check(operation, cudaPointerGetAttributes(&attributes, x.data)));
    VSA_TRY(check_memory(operation, x, attributes, device));
    if (device < 0) device = attributes.device;
  }
  capability_ = capability_of(device);
  if (family_of(capability_) == nullptr) {
    return unsupported(
        fmt::format("[{}] device: expected one of compute capability {}, got device {} of {}.{}",
                    operation, family_capabilities(), device, capability_ / 10, capability_ % 10));
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
