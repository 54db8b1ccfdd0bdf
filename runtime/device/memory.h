// Memory of one device for the models that compute there: arrays that free themselves, numbers that
// are brought there, and workspace for the library's calls. Host-only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "runtime/device/weight_place.h"
#include "vsa/backend.h"
#include "vsa/device_memory.h"
#include "vsa/status.h"
#include "vsa/tensor.h"

namespace vsa::device {

/// A kind of the library's calls, and what one of it cannot do without.
struct Call {
  const char* kind = "";
  double flops = 0.0;
  double bytes = 0.0;  ///< of inputs and outputs, each counted once
};

/// How often calls of one kind ran, how long they took, and what they cost together.
struct CallTime {
  int64_t calls = 0;
  double ms = 0.0;
  double flops = 0.0, bytes = 0.0;
};
/// By kind.
using CallTimes = std::map<std::string, CallTime>;

/// All calls go to one stream, so that what is enqueued sees what was enqueued before. Used from
/// one thread at a time.
class Memory : public WeightPlace, public std::enable_shared_from_this<Memory> {
 public:
  /// @param device  as DeviceMemory::of takes it
  /// @return errors of DeviceMemory::of, and Unsupported if the backend takes neither bf16 nor f32
  static Result<std::shared_ptr<Memory>> of(BackendId id,
                                            int device = DeviceMemory::kCurrentDevice);
  ~Memory() override;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  /// What tokens and weights are: bf16 where the backend takes it.
  DType token_dtype() const { return token_dtype_; }
  const BackendTraits& traits() const { return traits_; }

  /// @return OutOfMemory, with how much is taken already | DeviceError
  Result<Array> array(int64_t size_bytes) override;
  /// Enqueues the copy.
  Status copy_in(void* to, const void* from, int64_t size_bytes) const override {
    return memory_.copy_in(to, from, size_bytes);
  }
  /// Copies, once all that was enqueued before is done.
  Status copy_out(void* to, const void* from, int64_t size_bytes) const {
    return memory_.copy_out(to, from, size_bytes);
  }

  /// Enqueues setting each of the bytes to `value`.
  Status fill(void* to, uint8_t value, int64_t size_bytes) const {
    return memory_.stream().fill(to, value, size_bytes);
  }

  /// Makes one of the library's calls on these arrays. Its workspace is one block that grows,
  /// because calls on one stream do not run at the same time.
  /// @param what  as measure_calls counts it
  /// @return what the call returned
  Status call(const Call& what, const std::function<Status(const Context&)>& enqueue);
  /// What `enqueue` enqueues through this object, captured in place of running it: see
  /// DeviceMemory::capture. Runs as long as `workspace_number` is what it was.
  Result<DeviceGraph> capture(const std::function<Status()>& enqueue) {
    return memory_.capture(enqueue);
  }
  Status launch(const DeviceGraph& graph) const { return graph.launch(memory_.stream()); }
  /// Counts the blocks that were the workspace: calls that were captured write to the block of
  /// their time.
  int64_t workspace_number() const { return workspace_number_; }

  /// From now on waits after every call, and adds how long it took; null: no longer. What a call
  /// costs the host and what it waits for the device, some 10 us, is measured with it.
  void measure_calls(CallTimes* times) { call_times_ = times; }
  bool measures_calls() const { return call_times_ != nullptr; }

  /// For streams, events and pinned memory of the device.
  const DeviceMemory& device() const { return memory_; }
  /// Waits for all that was enqueued.
  Status wait() const { return memory_.wait(); }

  Result<int64_t> available_bytes() const { return memory_.available_bytes(); }
  int64_t bytes_taken() const { return bytes_taken_; }
  /// The most that was taken at any time.
  int64_t most_bytes_taken() const { return most_bytes_taken_; }

 private:
  friend class Array;
  Memory(DeviceMemory memory, const BackendTraits& traits, DType token_dtype);
  Result<void*> take(int64_t size_bytes);
  void give_back(void* data, int64_t size_bytes);
  Workspace workspace(int64_t size_bytes);
  Context context();

  DeviceMemory memory_;
  BackendTraits traits_;
  DType token_dtype_;
  Workspace workspace_{};
  int64_t workspace_number_ = 0;
  CallTimes* call_times_ = nullptr;
  int64_t bytes_taken_ = 0;
  int64_t most_bytes_taken_ = 0;
};

}  // namespace vsa::device
