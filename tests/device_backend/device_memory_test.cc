// DeviceMemory on the fake device: devices, streams, events, pinned memory, and what is refused.
#include "vsa/device_memory.h"

#include <gmock/gmock.h>

#include <cstring>
#include <thread>

#include "tests/device_backend/device.h"

namespace vsa::test {
namespace {

constexpr BackendId kFake = BackendId::kHip;

class DeviceWork : public testing::Test {
 protected:
  DeviceWork() { device_.close(); }

  /// The first four bytes of device memory.
  uint32_t read(const void* from) const {
    uint32_t value = 0;
    throw_if_error(memory_.copy_out(&value, from, sizeof value));
    return value;
  }

  FakeDevice device_;
  DeviceMemory memory_ = DeviceMemory::of(kFake).value();
};

TEST_F(DeviceWork, DevicesAreChosenByNumber) {
  EXPECT_EQ(DeviceMemory::device_count(kFake).value(), 2);
  EXPECT_EQ(memory_.device(), 0);
  EXPECT_EQ(DeviceMemory::of(kFake, 1)->device(), 1);
  EXPECT_EQ(DeviceMemory::of(kFake, 1)->system_name().value(), "fake:1");
  for (const int wrong : {2, -2}) {
    const Status status = DeviceMemory::of(kFake, wrong).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(),
              "[device_memory] device: expected 0 to 1, got " + std::to_string(wrong));
  }
  EXPECT_EQ(DeviceMemory::device_count(BackendId::kCpu).status().code(), StatusCode::kUnsupported);
}

TEST_F(DeviceWork, EveryFunctionWorksOnItsOwnDeviceOnEveryThread) {
  const int on_first = device_.num_functions[0];
  {
    DeviceMemory second = DeviceMemory::of(kFake, 1).value();
    const auto use = [&] {
      void* data = second.allocate(256).value();
      uint32_t value = 7;
      throw_if_error(second.copy_in(data, &value, sizeof value));
      throw_if_error(second.copy_out(&value, data, sizeof value));
      const DeviceEvent event = second.make_event().value();
      const DeviceStream stream = second.make_stream().value();
      const PinnedMemory pinned = second.make_pinned(256).value();
      throw_if_error(second.stream().record(event));
      throw_if_error(stream.wait_for(event));
      throw_if_error(stream.copy_in(data, pinned, 0, 256));
      throw_if_error(stream.fill(data, 0, 256));
      throw_if_error(event.wait());
      throw_if_error(stream.wait());
      throw_if_error(second.release(data));
      EXPECT_TRUE(second.available_bytes().ok());
      EXPECT_EQ(current_fake_device(), 0) << "left as it was";
    };
    use();
    std::thread(use).join();
  }
  EXPECT_EQ(device_.num_functions[0], on_first);
  EXPECT_GT(device_.num_functions[1], 30);
}

TEST_F(DeviceWork, MakeCurrentIsForTheCallingThread) {
  const DeviceMemory second = DeviceMemory::of(kFake, 1).value();
  std::thread([&] {
    throw_if_error(second.make_current());
    EXPECT_EQ(current_fake_device(), 1);
    EXPECT_EQ(DeviceMemory::of(kFake)->device(), 1) << "the current one";
  }).join();
  EXPECT_EQ(current_fake_device(), 0);
}

TEST_F(DeviceWork, EventsTellTheTimeOfTheDevice) {
  const DeviceEvent begin = memory_.make_event().value();
  const DeviceEvent end = memory_.make_event().value();
  void* data = memory_.allocate(256).value();
  EXPECT_TRUE(begin.wait().ok()) << "never recorded";
  EXPECT_EQ(end.ms_since(begin).status().code(), StatusCode::kDeviceError);
  throw_if_error(memory_.stream().record(begin));
  throw_if_error(memory_.stream().fill(data, 3, 256));
  throw_if_error(memory_.stream().record(end));
  throw_if_error(memory_.stream().fill(data, 4, 256));
  EXPECT_EQ(end.ms_since(begin).value(), FakeDevice::kFillMs);
  EXPECT_EQ(read(data), 0x04040404U);
}

/// The fake device makes such copies as late as it may.
TEST_F(DeviceWork, PinnedCopiesAreThereOnceTheirEventWasWaitedFor) {
  const PinnedMemory pinned = memory_.make_pinned(1024).value();
  EXPECT_EQ(pinned.size_bytes(), 1024);
  auto* host = static_cast<std::byte*>(pinned.data());
  void* data = memory_.allocate(256).value();
  const DeviceStream copies = memory_.make_stream().value();
  const DeviceEvent there = memory_.make_event().value();
  throw_if_error(memory_.stream().fill(data, 1, 256));
  std::memset(host + 512, 2, 256);
  throw_if_error(copies.copy_in(data, pinned, 512, 256));
  throw_if_error(copies.record(there));
  EXPECT_EQ(read(data), 0x01010101U) << "only enqueued";
  throw_if_error(memory_.stream().wait_for(there));
  EXPECT_EQ(read(data), 0x02020202U);

  std::memset(host, 3, 256);
  throw_if_error(copies.copy_in(data, pinned, 0, 256));
  throw_if_error(copies.wait());
  EXPECT_EQ(read(data), 0x03030303U);
}

TEST_F(DeviceWork, PinnedCopiesStayInTheirMemory) {
  const PinnedMemory pinned = memory_.make_pinned(1024).value();
  void* data = memory_.allocate(2048).value();
  const auto copy = [&](int64_t offset, int64_t size) {
    return memory_.stream().copy_in(data, pinned, offset, size);
  };
  EXPECT_TRUE(copy(1024, 0).ok());
  EXPECT_TRUE(copy(24, 1000).ok());
  for (const auto& [offset, size] :
       {std::pair<int64_t, int64_t>{25, 1000}, {-1, 4}, {0, -4}, {INT64_MAX, 2}}) {
    EXPECT_EQ(copy(offset, size).code(), StatusCode::kInvalidArgument) << offset << " " << size;
  }
  EXPECT_EQ(copy(25, 1000).message(),
            "[device_memory] from: expected at least 1000 bytes behind the first 25, got 1024 "
            "bytes in all");
}

TEST_F(DeviceWork, GraphsAreRefusedWhereABackendHasNone) {
  bool called = false;
  const auto enqueue = [&] {
    called = true;
    return Status();
  };
  const Status status = memory_.capture(enqueue).status();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_EQ(status.message(), "[device_memory] capture: expected a backend with graphs, got hip");
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace vsa::test
