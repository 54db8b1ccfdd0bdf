// A device made of host memory, for a backend that no machine needs to have. Its memory cannot be
// touched but by the backend's own functions: whatever else reads or writes it ends the test.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <memory_resource>
#include <string>
#include <vector>

#include "src/core/backend_table.h"

namespace vsa::test {

/// What was enqueued on it and not done yet: copies from pinned memory, and whatever is behind one.
/// All else is done at once.
class FakeStream {
 public:
  /// Does all that was enqueued, and `work`.
  void run(const std::function<void()>& work);
  /// Leaves `work` for later; returns its number.
  int64_t enqueue(std::function<void()> work);
  /// Does what was enqueued up to that number.
  void run_up_to(int64_t number);
  int64_t last_number() const { return last_; }

 private:
  std::deque<std::function<void()>> waiting_;
  int64_t last_ = 0;
};

struct FakeEvent {
  FakeStream* stream = nullptr;  ///< null: never recorded
  int64_t number = 0;
  double at_ms = 0.0;
};

class FakeDevice : public std::pmr::memory_resource {
 public:
  FakeDevice();
  ~FakeDevice() override;
  FakeDevice(const FakeDevice&) = delete;
  FakeDevice& operator=(const FakeDevice&) = delete;

  /// The device that calls run on; null: none.
  static FakeDevice* current();

  bool contains(const void* data) const;
  /// Makes the memory readable and writable, or neither.
  void open();
  void close();
  /// A stream that is always there.
  void* stream() { return &stream_; }
  void* add_stream();
  void remove_stream(void* stream);
  /// Null if there is no such stream.
  FakeStream* find_stream(void* stream);
  /// Open while this lives.
  class Opened {
   public:
    explicit Opened(FakeDevice& device) : device_(device) { device_.open(); }
    ~Opened() { device_.close(); }
    Opened(const Opened&) = delete;
    Opened& operator=(const Opened&) = delete;

   private:
    FakeDevice& device_;
  };
  /// Fails the test unless one is of the device, the other is not, and the stream exists.
  void count_copy(void* stream, const void* there, const void* here);

  /// What the backend counts.
  int num_calls = 0;                                     ///< that computed
  std::map<std::string, int, std::less<>> num_calls_of;  ///< the same of each stage
  int num_queries = 0;                                   ///< for workspace
  int num_copies = 0;
  int num_waits = 0;
  int num_fills = 0;
  /// Of both devices, how often each was current when a function was called.
  int num_functions[2] = {};

  /// The device's clock, which moves by what it does.
  double now_ms = 0.0;
  static constexpr double kCallMs = 0.25, kFillMs = 1000.0;

  static constexpr int64_t kWorkspaceBytes = 4096;
  int64_t available_bytes = int64_t{1} << 40;  ///< what it says that it could still give

 private:
  void* do_allocate(size_t bytes, size_t alignment) override;
  void do_deallocate(void*, size_t, size_t) override {}
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  std::byte* memory_;
  size_t used_ = 0;
  FakeStream stream_;
  std::vector<std::unique_ptr<FakeStream>> streams_;
};

/// The device that is current on the calling thread; there are two, with the same memory.
int& current_fake_device();

/// For DeviceMemory.
extern const DeviceFunctions kFakeDeviceFunctions;

}  // namespace vsa::test
