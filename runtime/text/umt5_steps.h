// What a device does for the umT5 text encoder: the steps of an encoding. Host-only.
//
//   embedded tokens --begin--> x --attend--> x --feed_forward--> x ... --end--> rows
//
// x is in the device's memory, which the implementation owns. A device may enqueue a step and
// return; what hands numbers to the host waits. A device with little memory may bring the weights
// of a layer along within its steps. text/cpu/ is the implementation for the CPU,
// text/device/ for any device; umt5.h calls the steps.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "vsa/status.h"

namespace vsa::text {

/// For one prompt at a time. Errors: OutOfMemory, DeviceError.
class Umt5Steps {
 public:
  virtual ~Umt5Steps() = default;

  /// x = the embedded tokens of a prompt.
  /// @param rows  [num_tokens, d_model] f32, host memory; not read after the call
  virtual Status begin(const float* rows, int64_t num_tokens) = 0;

  /// x += out(attention of norm1(x)), with the layer's own position table.
  virtual Status attend(int64_t layer) = 0;

  /// x += down(gelu(gelu_in(n)) * linear_in(n)), n = norm2(x).
  virtual Status feed_forward(int64_t layer) = 0;

  /// rows = final_norm(x).
  /// @param rows  [num_tokens, d_model] f32, host memory, whole after the call
  virtual Status end(float* rows) = 0;

  /// x itself, for whoever compares devices.
  /// @param x  [num_tokens, d_model] f32, host memory, whole after the call
  virtual Status read_residual(std::span<float> x) = 0;
};

}  // namespace vsa::text
