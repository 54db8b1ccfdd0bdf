// A device that is current on the calling thread as long as an object lives. Host-only.
#pragma once

#include "src/core/backend_table.h"

namespace vsa {

class CurrentDevice {
 public:
  CurrentDevice(const DeviceFunctions& functions, int device)
      : functions_(functions), status_(enter(device)) {}
  ~CurrentDevice() {
    if (before_ >= 0) static_cast<void>(functions_.make_current(before_));
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

  const Status& status() const { return status_; }

 private:
  Status enter(int device) {
    int current = 0;
    VSA_TRY(functions_.current(&current));
    if (current == device) return {};
    VSA_TRY(functions_.make_current(device));
    before_ = current;
    return {};
  }
  const DeviceFunctions& functions_;
  int before_ = -1;  // the device that was current before; -1: the same one
  Status status_;
};

/// function(arguments...) with the device current.
template <class... Parameters, class... Arguments>
Status on_device(const DeviceFunctions& functions, int device, Status (*function)(Parameters...),
                 Arguments... arguments) {
  const CurrentDevice scope(functions, device);
  VSA_TRY(scope.status());
  return function(arguments...);
}

}  // namespace vsa
