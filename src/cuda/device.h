// The device a call runs on. Host-only.
#pragma once

#include <cuda_runtime.h>

#include <initializer_list>
#include <string_view>

#include "vsa/attention.h"
#include "vsa/backend.h"
#include "vsa/status.h"

namespace vsa::cuda {

/// What the machine offers; `available` only with a driver and a device of compute capability 9.0.
BackendInfo info();

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

/// InvalidArgument unless memory is a device's: a kernel that meets another kind ends the process's
/// use of the device.
/// @param device  that of the call; negative: this memory decides
Status check_memory(std::string_view operation, const NamedMemory& memory,
                    const cudaPointerAttributes& attributes, int device);

/// Makes the device of a call current while it lives.
class DeviceScope {
 public:
  /// @param memory  all that kernels read or write; the first, which is not null, decides
  DeviceScope(std::string_view operation, std::initializer_list<NamedMemory> memory);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

  /// InvalidArgument if any memory is not of the first one's device, Unsupported if that is not an
  /// sm_90.
  const Status& status() const { return status_; }
  int num_sms() const { return num_sms_; }

 private:
  Status enter(std::string_view operation, std::initializer_list<NamedMemory> memory);
  int before_ = -1;  // device to return to; -1: none
  int num_sms_ = 0;
  Status status_;
};

}  // namespace vsa::cuda
