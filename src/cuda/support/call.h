// A call from its arguments to its kernels: workspace first, then the device, then launches.
// Host-only.
#pragma once

#include <string_view>

#include "src/cuda/support/device.h"
#include "src/cuda/support/launch.h"
#include "src/cuda/support/workspace.h"

namespace vsa::cuda {

class Call {
 public:
  Call(std::string_view operation, const Context& context)
      : workspace(context), operation_(operation), context_(context) {}

  std::string_view operation() const { return operation_; }

  /// Once all memory has been taken: answers a query, or checks the workspace, makes the device of
  /// the arguments current and calls enqueue(const CallSite&) -> Status.
  template <class Args, class Enqueue>
  Status run(const Args& args, const Enqueue& enqueue) const {
    if (workspace.answers_query()) return {};
    VSA_TRY(workspace.status(operation_));
    MemoryList memory(args);
    memory.add("workspace", workspace.data());
    const DeviceScope device(operation_, memory.all());
    VSA_TRY(device.status());
    return enqueue(CallSite{.operation = operation_,
                            .num_sms = device.num_sms(),
                            .capability = device.capability(),
                            .stream = static_cast<cudaStream_t>(context_.stream)});
  }

  Carver workspace;

 private:
  std::string_view operation_;
  const Context& context_;
};

}  // namespace vsa::cuda
