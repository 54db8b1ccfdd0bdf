// The device a call runs on. Host-only.
#pragma once

#include <cuda_runtime.h>

#include <span>
#include <string_view>
#include <vector>

#include "src/core/backend_table.h"

namespace vsa::cuda {

/// What the machine offers; `available` only with a driver and a device that a family supports.
BackendInfo info();

/// Devices, and memory, streams, events and graphs of the current one.
extern const DeviceFunctions kDeviceFunctions;

/// Compute capability of a device as major * 10 + minor; negative if it cannot be told.
int capability_of(int device);

/// Memory that a call was given, by the name of the argument; null: left out.
struct NamedMemory {
  std::string_view argument;
  const void* data = nullptr;

  NamedMemory(std::string_view name, const void* at) : argument(name), data(at) {}
  NamedMemory(std::string_view name, const ConstTensor& tensor)
      : argument(name), data(tensor.data) {}
  NamedMemory(std::string_view name, const Tensor& tensor) : argument(name), data(tensor.data) {}
  NamedMemory(std::string_view name, const Gate& gate)
      : argument(name), data(gate.is_tensor() ? gate.as_tensor().data : nullptr) {}
};

/// All memory of a call's arguments, in the order of vsa/stage_list.h.
class MemoryList {
 public:
#define VSA_DECLARE_MEMORY_LIST(stage, Args, fields) explicit MemoryList(const Args& args);
  VSA_FOR_EACH_STAGE(VSA_DECLARE_MEMORY_LIST)
#undef VSA_DECLARE_MEMORY_LIST

  void add(std::string_view argument, const void* data);
  std::span<const NamedMemory> all() const { return all_; }

 private:
  std::vector<NamedMemory> all_;
};

/// InvalidArgument unless the memory is managed memory or that of the device. A kernel that
/// accessed host memory would cause an error after which the process can no longer use the device.
/// @param device  the device of the call; negative: any device
Status check_memory(std::string_view operation, const NamedMemory& memory,
                    const cudaPointerAttributes& attributes, int device);

/// Makes the device of a call current as long as this object exists.
class DeviceScope {
 public:
  /// @param memory  all that kernels read or write; the first pointer that is not null determines
  ///                the device
  DeviceScope(std::string_view operation, std::span<const NamedMemory> memory);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

  /// InvalidArgument if any memory is not that of this device, Unsupported if no family supports
  /// the device.
  const Status& status() const { return status_; }
  int num_sms() const { return num_sms_; }
  int capability() const { return capability_; }

 private:
  Status enter(std::string_view operation, std::span<const NamedMemory> memory);
  int before_ = -1;  // the device that was current before; -1: the same one
  int num_sms_ = 0;
  int capability_ = 0;
  Status status_;
};

}  // namespace vsa::cuda
