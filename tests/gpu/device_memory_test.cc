// DeviceMemory on a card: events, copies from pinned memory on a second stream, graphs, devices.
#include "vsa/device_memory.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <thread>

#include "tests/gpu/device.h"
#include "tests/support/random.h"
#include "vsa/half.h"
#include "vsa/vsa.h"

namespace vsa::test {
namespace {

constexpr BackendId kCuda = BackendId::kCuda;
constexpr int64_t kMebibyte = int64_t{1} << 20;

template <class T>
std::vector<T> read(const DeviceMemory& memory, const void* from, size_t count) {
  std::vector<T> values(count);
  throw_if_error(memory.copy_out(values.data(), from, std::ssize(values) * int64_t{sizeof(T)}));
  return values;
}

/// Some milliseconds of work.
void enqueue_work(const DeviceStream& stream, void* data, int64_t size_bytes) {
  constexpr int kTimes = 50;
  for (int i = 0; i < kTimes; ++i) throw_if_error(stream.fill(data, 1, size_bytes));
}

TEST(GpuDeviceMemory, EventsTellTheTimeOfTheDevice) {
  VSA_NEEDS_GPU;
  DeviceMemory memory = DeviceMemory::of(kCuda).value();
  void* data = memory.allocate(256 * kMebibyte).value();
  const DeviceEvent begin = memory.make_event().value();
  const DeviceEvent end = memory.make_event().value();
  EXPECT_EQ(end.ms_since(begin).status().code(), StatusCode::kDeviceError) << "never recorded";
  throw_if_error(memory.stream().record(begin));
  enqueue_work(memory.stream(), data, 256 * kMebibyte);
  throw_if_error(memory.stream().record(end));
  const double ms = end.ms_since(begin).value();
  EXPECT_GT(ms, 1.0) << "13 GB";
  EXPECT_LT(ms, 1000.0);
}

/// The copy is behind the work of its own stream, so it cannot have been made when copy_in returns.
TEST(GpuDeviceMemory, PinnedCopiesOnlyEnqueue) {
  VSA_NEEDS_GPU;
  DeviceMemory memory = DeviceMemory::of(kCuda).value();
  void* data = memory.allocate(256 * kMebibyte).value();
  const PinnedMemory pinned = memory.make_pinned(kMebibyte).value();
  const DeviceStream copies = memory.make_stream().value();
  const DeviceEvent there = memory.make_event().value();
  std::memset(pinned.data(), 2, kMebibyte);
  enqueue_work(copies, data, 256 * kMebibyte);
  throw_if_error(copies.copy_in(data, pinned, 0, kMebibyte));
  throw_if_error(copies.record(there));
  std::memset(pinned.data(), 3, kMebibyte);  // before the copy, which takes what is there by then
  throw_if_error(memory.stream().wait_for(there));
  EXPECT_THAT(read<uint8_t>(memory, data, kMebibyte), testing::Each(3));
  EXPECT_THAT(read<uint8_t>(memory, static_cast<std::byte*>(data) + kMebibyte, kMebibyte),
              testing::Each(1));
}

/// What copy_in promises holds for such memory, too.
TEST(GpuDeviceMemory, PinnedMemoryMayChangeAfterAnOrdinaryCopy) {
  VSA_NEEDS_GPU;
  DeviceMemory memory = DeviceMemory::of(kCuda).value();
  void* data = memory.allocate(256 * kMebibyte).value();
  const PinnedMemory pinned = memory.make_pinned(kMebibyte).value();
  std::memset(pinned.data(), 2, kMebibyte);
  enqueue_work(memory.stream(), data, 256 * kMebibyte);
  throw_if_error(memory.copy_in(data, pinned.data(), kMebibyte));
  std::memset(pinned.data(), 3, kMebibyte);
  EXPECT_THAT(read<uint8_t>(memory, data, kMebibyte), testing::Each(2));
}

/// A copy of pinned memory and a call of two stages, captured once and launched with other numbers.
class GpuGraph : public testing::Test {
 protected:
  static constexpr int64_t kRows = 128, kColumns = 64;
  static constexpr size_t kCount = kRows * kColumns;

  void SetUp() override {
    VSA_NEEDS_GPU;
    memory_.emplace(DeviceMemory::of(kCuda).value());
    pinned_ = memory_->make_pinned(kCount * 2).value();
    x_ = memory_->allocate(kCount * 2).value();
    tiled_ = memory_->allocate(kCount * 2).value();
    pooled_ = memory_->allocate(kCount * 4).value();
    context_ = memory_->context();
    int64_t bytes[2] = {};
    Context query = context_;
    query.workspace_query = &bytes[0];
    throw_if_error(tile(query, tile_args()));
    query.workspace_query = &bytes[1];
    throw_if_error(pool(query, pool_args()));
    const int64_t most = std::max(bytes[0], bytes[1]);
    context_.workspace = {memory_->allocate(most).value(), most};
  }

  TileArgs tile_args() const {
    return {.x = ConstTensor::bhsd(x_, DType::kBF16, kDims),
            .plan = &plan_,
            .tiled = Tensor::bhsd(tiled_, DType::kBF16, kDims)};
  }
  PoolArgs pool_args() const {
    return {.x = ConstTensor::bhsd(tiled_, DType::kBF16, kDims),
            .plan = &plan_,
            .pooled = Tensor::bhsd(pooled_, DType::kF32, {1, 1, plan_.num_tiles(), kColumns})};
  }
  Status enqueue() const {
    VSA_TRY(memory_->stream().copy_in(x_, pinned_, 0, kCount * 2));
    VSA_TRY(tile(context_, tile_args()));
    return pool(context_, pool_args());
  }
  void set_numbers(uint64_t seed) const {
    const std::vector<double> values = normal(kCount, seed);
    auto* const to = static_cast<BF16*>(pinned_.data());
    for (size_t i = 0; i < kCount; ++i) to[i] = BF16(static_cast<float>(values[i]));
  }
  std::vector<float> means() const {
    return read<float>(*memory_, pooled_, static_cast<size_t>(plan_.num_tiles() * kColumns));
  }

  static constexpr Dims kDims{1, 1, kRows, kColumns};
  TilePlan plan_ = TilePlan::grid({4, 8, 4}, {4, 4, 4}).value();
  std::optional<DeviceMemory> memory_;
  PinnedMemory pinned_;
  void *x_ = nullptr, *tiled_ = nullptr, *pooled_ = nullptr;
  Context context_;
};

TEST_F(GpuGraph, ReplaysCallsWithWhatIsInMemoryByThen) {
  set_numbers(1);
  throw_if_error(enqueue());
  const std::vector<float> first = means();
  set_numbers(2);
  throw_if_error(memory_->stream().fill(pooled_, 0xFF, kCount * 4));
  const DeviceGraph graph = memory_->capture([&] { return enqueue(); }).value();
  const auto untouched = read<uint32_t>(*memory_, pooled_, 4);
  EXPECT_THAT(untouched, testing::Each(0xFFFFFFFFU)) << "capturing runs nothing";
  throw_if_error(graph.launch(memory_->stream()));
  const std::vector<float> second = means();
  EXPECT_NE(second, first);
  throw_if_error(enqueue());
  EXPECT_EQ(means(), second);
  set_numbers(1);
  throw_if_error(graph.launch(memory_->stream()));
  EXPECT_EQ(means(), first);
}

TEST_F(GpuGraph, ASecondStreamCanBePartOfIt) {
  const DeviceStream copies = memory_->make_stream().value();
  const DeviceEvent begun = memory_->make_event().value();
  const DeviceEvent there = memory_->make_event().value();
  set_numbers(1);
  throw_if_error(enqueue());
  const std::vector<float> first = means();
  const DeviceGraph graph = memory_
                                ->capture([&]() -> Status {
                                  VSA_TRY(memory_->stream().record(begun));
                                  VSA_TRY(copies.wait_for(begun));
                                  VSA_TRY(copies.copy_in(x_, pinned_, 0, kCount * 2));
                                  VSA_TRY(copies.record(there));
                                  VSA_TRY(memory_->stream().wait_for(there));
                                  VSA_TRY(tile(context_, tile_args()));
                                  return pool(context_, pool_args());
                                })
                                .value();
  set_numbers(2);
  throw_if_error(graph.launch(memory_->stream()));
  EXPECT_NE(means(), first);
  set_numbers(1);
  throw_if_error(graph.launch(memory_->stream()));
  EXPECT_EQ(means(), first);
}

TEST_F(GpuGraph, WhatItCannotContainIsRefusedByName) {
  const auto refused = [&](const char* what, const std::function<Status()>& call) {
    Status inner;
    const Status status = memory_
                              ->capture([&]() -> Status {
                                inner = call();
                                return inner;
                              })
                              .status();
    EXPECT_EQ(inner.code(), StatusCode::kInvalidArgument) << what;
    EXPECT_EQ(status.message(), inner.message()) << what;
    EXPECT_THAT(inner.message(),
                testing::StartsWith(std::string("[device_memory] ") + what + ": expected a call"));
  };
  float number = 1.0F;
  refused("copy_in", [&] { return memory_->copy_in(x_, &number, 4); });
  refused("copy_out", [&] { return memory_->copy_out(&number, x_, 4); });
  refused("wait", [&] { return memory_->wait(); });
  refused("allocate", [&] { return memory_->allocate(4).status(); });
  refused("release", [&] { return memory_->release(x_); });
  refused("make_pinned", [&] { return memory_->make_pinned(4).status(); });
  refused("capture", [&] { return memory_->capture([] { return Status(); }).status(); });
  EXPECT_THROW(static_cast<void>(memory_->capture([]() -> Status { throw 1; })), int);
  // Nothing of it is left behind.
  throw_if_error(memory_->copy_in(x_, &number, 4));
  EXPECT_EQ(read<float>(*memory_, x_, 1)[0], number);
  set_numbers(1);
  throw_if_error(enqueue());
  EXPECT_TRUE(memory_->capture([&] { return enqueue(); }).ok());
}

/// Calls find their device by their tensors, whatever the thread that makes them.
TEST_F(GpuGraph, AnotherThreadNeedsNoPreparation) {
  set_numbers(1);
  throw_if_error(enqueue());
  const std::vector<float> want = means();
  throw_if_error(memory_->stream().fill(pooled_, 0, kCount * 4));
  std::thread([&] { throw_if_error(enqueue()); }).join();
  EXPECT_EQ(means(), want);
}

TEST(GpuDeviceMemory, DevicesAreChosenByNumber) {
  VSA_NEEDS_GPU;
  const int count = DeviceMemory::device_count(kCuda).value();
  ASSERT_GE(count, 1);
  const Status status = DeviceMemory::of(kCuda, count).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "[device_memory] device: expected 0 to " + std::to_string(count - 1) +
                                  ", got " + std::to_string(count));
  EXPECT_EQ(DeviceMemory::of(kCuda)->device(), 0);
  if (count < 2) GTEST_SKIP() << "one device: the rest needs two";
  DeviceMemory second = DeviceMemory::of(kCuda, 1).value();
  EXPECT_NE(second.system_name().value(), DeviceMemory::of(kCuda, 0)->system_name().value());
  void* data = nullptr;
  std::thread([&] {
    data = second.allocate(4).value();
    const uint32_t value = 7;
    throw_if_error(second.copy_in(data, &value, sizeof value));
  }).join();
  EXPECT_EQ(read<uint32_t>(second, data, 1)[0], 7U);
  cudaPointerAttributes attributes{};
  expect_cuda(cudaPointerGetAttributes(&attributes, data));
  EXPECT_EQ(attributes.device, 1);
  int current = -1;
  expect_cuda(cudaGetDevice(&current));
  EXPECT_EQ(current, 0);
}

}  // namespace
}  // namespace vsa::test
