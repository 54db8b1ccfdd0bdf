// Calls with host tensors on a backend whose tensors are in device memory: copies there, and back.
// Host-only.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "vsa/device_stream.h"
#include "vsa/stage_list.h"

namespace vsa::cli {

/// Device memory for the tensors and tables of some calls, and a stream that the calls run on. All
/// members throw Failure on an error of the device.
class Device {
 public:
  explicit Device(BackendId backend);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  /// A copy on the device, contiguous [B, H, S, D] whatever the strides; what is empty stays empty.
  ConstTensor in(const ConstTensor& host);
  Gate in(const Gate& host);
  ConstLut in(const ConstLut& host);
  /// Room on the device for an output, which `fetch` copies into `host`.
  Tensor out(const Tensor& host);
  Lut out(const Lut& host);
  /// A copy on the device that calls change, and that `fetch` copies back.
  Tensor in_out(const Tensor& host);

  /// Calls with this device's stream and the workspace that the call asks for; enqueues only.
  Status call(const std::function<Status(const Context&)>& stage);
  /// Waits for all that was called.
  void wait();
  /// Waits, and copies every output to where it belongs.
  void fetch();

  BackendId backend() const;
  /// The most workspace that a call asked for.
  int64_t workspace_bytes() const;
  /// The stream of the calls.
  const DeviceStream& stream() const;
  /// By which the tools of the system know the device: nvidia-smi by this PCI bus id.
  std::string system_name() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Times what is enqueued on a device, by its own clock and with a cold L2 cache. Throws as Device.
class DeviceClock {
 public:
  /// @param backend  that of the devices that are timed
  explicit DeviceClock(BackendId backend);
  ~DeviceClock();
  DeviceClock(const DeviceClock&) = delete;
  DeviceClock& operator=(const DeviceClock&) = delete;

  /// Enqueues a fill that empties the L2 cache, and the start of the time behind it. Emptying
  /// takes the device about as long as the host needs to enqueue the longest call, so the time of
  /// launching is not measured.
  void start(const Device& device);
  /// Waits for what was called since start(); milliseconds that it took.
  double stop_ms(const Device& device);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The arguments of a call with everything in device memory.
#define VSA_DECLARE_ON_DEVICE(stage, Args, fields) Args on_device(Device& device, Args args);
VSA_FOR_EACH_STAGE(VSA_DECLARE_ON_DEVICE)
#undef VSA_DECLARE_ON_DEVICE

/// Whether the backend's tensors are in memory of a device.
bool is_on_device(BackendId backend);

/// A stage on the context's backend, from and to host memory.
template <class Args>
Status on_backend(const Context& context, Status (*stage)(const Context&, const Args&),
                  const std::type_identity_t<Args>& args) {
  if (!is_on_device(context.backend)) return stage(context, args);
  Device device(context.backend);
  const Args there = on_device(device, args);
  Status status = device.call([&](const Context& c) { return stage(c, there); });
  if (status.ok()) device.fetch();
  return status;
}

}  // namespace vsa::cli
