// A device made of host memory, for a backend that no machine needs to have. Its memory cannot be
// touched but by the backend's own functions: whatever else reads or writes it ends the test.
#pragma once

#include <cstdint>
#include <memory_resource>

#include "vsa/backend.h"

namespace vsa::test {

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
  void* stream() { return this; }
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
  /// Fails the test unless one is of the device, the other is not, and the stream is the device's.
  void count_copy(const void* stream, const void* there, const void* here);

  /// What the backend counts.
  int num_calls = 0;    ///< that computed
  int num_queries = 0;  ///< for workspace
  int num_copies = 0;
  int num_waits = 0;

  static constexpr int64_t kWorkspaceBytes = 4096;
  int64_t available_bytes = int64_t{1} << 40;  ///< what it says that it could still give

 private:
  void* do_allocate(size_t bytes, size_t alignment) override;
  void do_deallocate(void*, size_t, size_t) override {}
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  std::byte* memory_;
  size_t used_ = 0;
};

}  // namespace vsa::test
