// The umT5 text encoder on a device. Host-only.
#pragma once

#include <memory>

#include "runtime/device/memory.h"
#include "runtime/text/umt5_steps.h"
#include "runtime/text/umt5_weights.h"

namespace vsa::text::device {

/// Weights and tokens are in the token dtype of the memory, x and sums in f32. Of the weights at
/// most two layers are in the device's memory: while one layer is computed, the next one is
/// brought, in each encoding anew. The weights must outlive the steps; all memory goes with them.
/// Steps enqueue; `end` and `read_residual` wait.
/// @return Unsupported (check_config in umt5_layout.h) | OutOfMemory | DeviceError
Result<std::unique_ptr<Umt5Steps>> make_steps(const Umt5Weights& weights,
                                              std::shared_ptr<vsa::device::Memory> memory);

}  // namespace vsa::text::device
