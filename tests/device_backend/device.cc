#include "tests/device_backend/device.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdlib>
#include <new>

namespace vsa::test {
namespace {

constexpr size_t kBytes = size_t{64} << 20;
FakeDevice* current_device = nullptr;

}  // namespace

FakeDevice::FakeDevice()
    : memory_(static_cast<std::byte*>(
          mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
  if (memory_ == MAP_FAILED) std::abort();
  current_device = this;
}

FakeDevice::~FakeDevice() {
  current_device = nullptr;
  munmap(memory_, kBytes);
}

FakeDevice* FakeDevice::current() { return current_device; }

bool FakeDevice::contains(const void* data) const {
  const auto* at = static_cast<const std::byte*>(data);
  return at >= memory_ && at < memory_ + kBytes;
}

void FakeDevice::count_copy(const void* copy_stream, const void* there, const void* here) {
  EXPECT_EQ(copy_stream, stream());
  EXPECT_TRUE(contains(there) && !contains(here));
  ++num_copies;
}

void FakeDevice::open() { mprotect(memory_, kBytes, PROT_READ | PROT_WRITE); }
void FakeDevice::close() { mprotect(memory_, kBytes, PROT_NONE); }

void* FakeDevice::do_allocate(size_t bytes, size_t /*alignment*/) {
  constexpr size_t kAlignment = 256;
  const size_t at = used_;
  used_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (used_ > kBytes) throw std::bad_alloc();
  return memory_ + at;
}

}  // namespace vsa::test
