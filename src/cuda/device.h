// The device a call runs on. Host-only.
#pragma once

#include <cuda_runtime.h>

#include <string_view>

#include "vsa/backend.h"
#include "vsa/status.h"

namespace vsa::cuda {

/// What the machine offers; `available` only with a driver and a device of compute capability 9.0.
BackendInfo info();

/// Makes the device that holds `data` current while it lives.
class DeviceScope {
 public:
  /// @param argument  name of the tensor that decides
  DeviceScope(std::string_view operation, std::string_view argument, const void* data);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

  /// InvalidArgument if `data` is not device memory, Unsupported if the device is not an sm_90.
  const Status& status() const { return status_; }
  int num_sms() const { return num_sms_; }

 private:
  Status enter(std::string_view operation, std::string_view argument, const void* data);
  int before_ = -1;  // device to return to; -1: none
  int num_sms_ = 0;
  Status status_;
};

}  // namespace vsa::cuda
