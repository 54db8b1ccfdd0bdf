// Outputs and gates of a call on the GPU, from and to host tensors.
#pragma once

#include <optional>

#include "tests/gpu/device.h"
#include "vsa/stages.h"

namespace vsa::test::gpu {

/// An output: poison on the host, a copy on the device, brought back at the end.
class Output {
 public:
  Output(DType dtype, Dims dims, Order order)
      : host_(dtype, dims, order), device_(ConstTensor(host_.view())) {}
  operator Tensor() const { return device_.view(); }  // NOLINT(google-explicit-constructor)
  TestTensor take() {
    device_.download(host_.view());
    EXPECT_TRUE(host_.guards_intact()) << "memory between an output's rows was written";
    return std::move(host_);
  }

 private:
  TestTensor host_;
  DeviceTensor device_;
};

/// Dims with another number of rows and columns.
inline Dims with(Dims dims, int64_t seq_len, int64_t head_dim) {
  dims.seq_len = seq_len;
  dims.head_dim = head_dim;
  return dims;
}

/// A gate whose tensor, if it has one, lies on the device.
class DeviceGate {
 public:
  explicit DeviceGate(const Gate& host) : gate_(host) {
    if (!host.is_tensor()) return;
    tensor_.emplace(host.as_tensor());
    gate_ = Gate::tensor(tensor_->view());
  }
  const Gate& gate() const { return gate_; }

 private:
  std::optional<DeviceTensor> tensor_;
  Gate gate_;
};

}  // namespace vsa::test::gpu
