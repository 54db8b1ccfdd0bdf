// Device memory for tests of the CUDA backend: copies of test tensors with poison around them.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <vector>

#include "src/cuda/support/device.h"
#include "src/cuda/support/launch.h"
#include "tests/support/test_tensor.h"
#include "vsa/backend.h"
#include "vsa/lut.h"
#include "vsa/status.h"

namespace vsa::test {

/// True if the CUDA backend can run here.
bool has_gpu();
/// Fails the test on a CUDA error.
void expect_cuda(cudaError_t error);

/// Where the kernels of a call with this context go, on the first device as if it had so many
/// multiprocessors.
inline cuda::CallSite call_site(std::string_view operation, const Context& context,
                                int num_sms = 1) {
  return {.operation = operation,
          .num_sms = num_sms,
          .capability = cuda::capability_of(0),
          .stream = static_cast<cudaStream_t>(context.stream)};
}

/// Device memory that is freed with it, filled with bytes of all ones (NaN in every dtype).
class DeviceBytes {
 public:
  explicit DeviceBytes(int64_t size);
  ~DeviceBytes();
  DeviceBytes(DeviceBytes&& other) noexcept;
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;

  std::byte* data() const { return data_; }
  int64_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  int64_t size_ = 0;
};

/// A copy of a tensor, strides and what lies between them included, between two guard bands.
class DeviceTensor {
 public:
  explicit DeviceTensor(const ConstTensor& host);
  /// The tensor in device memory.
  Tensor view() const { return view_; }
  /// Copies all of it back over the host tensor, and fails the test if a guard band was written.
  void download(const Tensor& host) const;

 private:
  Tensor view_;
  int64_t span_bytes_ = 0;
  DeviceBytes memory_;
};

/// A table in device memory.
class DeviceLut {
 public:
  explicit DeviceLut(const ConstLut& host);
  Lut view() const;
  void download(const Lut& host) const;

 private:
  LutDims dims_;
  DeviceBytes index_, count_;
};

/// Runs a call on a stream of its own with just the workspace it asks for, poisoned, and waits.
/// Throws vsa::Error if the call fails; fails the test on a device error or if anything around the
/// workspace was written.
void run_on_gpu(const std::function<Status(const Context&)>& call);

/// While it lives, run_on_gpu makes its calls beside some milliseconds of work on another stream.
/// One at a time.
class BusyStream {
 public:
  BusyStream();
  ~BusyStream();
  BusyStream(const BusyStream&) = delete;
  BusyStream& operator=(const BusyStream&) = delete;

  void start();
  void count_call();
  /// Calls that were enqueued completely while the work still ran.
  int calls_beside() const { return calls_beside_; }

 private:
  cudaStream_t stream_ = nullptr;
  DeviceBytes memory_{int64_t{256} << 20};
  int calls_beside_ = 0;
};

}  // namespace vsa::test

#define VSA_NEEDS_GPU \
  if (!::vsa::test::has_gpu()) GTEST_SKIP() << "no device of compute capability 9.0"
