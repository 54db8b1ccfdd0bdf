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

  /// What the backend counts.
  int num_calls = 0;    ///< that computed
  int num_queries = 0;  ///< for workspace

  static constexpr int64_t kWorkspaceBytes = 4096;

 private:
  void* do_allocate(size_t bytes, size_t alignment) override;
  void do_deallocate(void*, size_t, size_t) override {}
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  std::byte* memory_;
  size_t used_ = 0;
};

}  // namespace vsa::test
