#include "tests/device_backend/device.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdlib>
#include <new>
#include <utility>

namespace vsa::test {
namespace {

// Room for what empties the cache of any device; pages that nobody touches cost nothing.
constexpr size_t kBytes = size_t{2} << 30;
FakeDevice* current_device = nullptr;

}  // namespace

void FakeStream::run(const std::function<void()>& work) {
  run_up_to(last_);
  work();
}

int64_t FakeStream::enqueue(std::function<void()> work) {
  waiting_.push_back(std::move(work));
  return ++last_;
}

void FakeStream::run_up_to(int64_t number) {
  // Work may wait for another stream, and that one for this.
  while (last_ - std::ssize(waiting_) < number) {
    const std::function<void()> work = std::move(waiting_.front());
    waiting_.pop_front();
    work();
  }
}

FakeDevice::FakeDevice()
    : memory_(static_cast<std::byte*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {
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

void FakeDevice::count_copy(void* copy_stream, const void* there, const void* here) {
  EXPECT_NE(find_stream(copy_stream), nullptr);
  EXPECT_TRUE(contains(there) && !contains(here));
  ++num_copies;
}

void* FakeDevice::add_stream() {
  streams_.push_back(std::make_unique<FakeStream>());
  return streams_.back().get();
}

void FakeDevice::remove_stream(void* stream) {
  const auto removed = std::erase_if(streams_, [&](const auto& x) { return x.get() == stream; });
  EXPECT_EQ(removed, 1U);
}

FakeStream* FakeDevice::find_stream(void* stream) {
  if (stream == &stream_) return &stream_;
  for (const auto& x : streams_) {
    if (x.get() == stream) return x.get();
  }
  return nullptr;
}

void FakeDevice::open() { mprotect(memory_, kBytes, PROT_READ | PROT_WRITE); }
void FakeDevice::close() { mprotect(memory_, kBytes, PROT_NONE); }

void* FakeDevice::do_allocate(size_t bytes, size_t /*alignment*/) {
  // Whole pages for what is large, so that a fill can give them back.
  const size_t kept = bytes >= (size_t{1} << 20) ? 65536 : 256;
  const size_t at = (used_ + kept - 1) / kept * kept;
  used_ = at + bytes;
  if (used_ > kBytes) throw std::bad_alloc();
  return memory_ + at;
}

}  // namespace vsa::test
