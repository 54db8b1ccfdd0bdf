// The text encoder on a device that nobody knows by name, beside the CPU's: the same numbers from
// the same weights, of which two layers are there at a time. The device takes f32, and makes copies
// from pinned memory as late as it may.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>

#include "runtime/device/weight_stream.h"
#include "runtime/nn/convert.h"
#include "runtime/text/cpu/umt5_steps.h"
#include "runtime/text/device/umt5_layout.h"
#include "runtime/text/device/umt5_steps.h"
#include "tests/device_backend/device.h"
#include "tests/runtime_support/arrays.h"
#include "tests/runtime_support/random_umt5.h"

namespace vsa::test {
namespace {

constexpr BackendId kFake = BackendId::kHip;
constexpr text::Umt5Config kConfig{
    .vocab_size = 10, .d_model = 48, .d_kv = 8, .num_heads = 4, .d_ff = 40, .num_layers = 5};
// Both compute in f32, with sums in another order: near 1e-6 after five layers.
constexpr double kSame = 2e-5;

/// A random encoder on the device and on the CPU, with weights that are copied (f32) or widened.
class DeviceText : public testing::TestWithParam<DType> {
 protected:
  DeviceText() : random_(kConfig, GetParam(), 1) {
    device_.close();
    memory_ = device::Memory::of(kFake).value();
    there_ = text::device::make_steps(random_.weights, memory_).value();
    here_ = text::cpu::make_steps(random_.weights).value();
  }

  static std::vector<float> prompt(int64_t tokens, uint64_t seed) {
    return normal_f32(tokens * kConfig.d_model, seed);
  }
  static std::vector<float> residual(text::Umt5Steps& steps, int64_t tokens) {
    std::vector<float> x(static_cast<size_t>(tokens * kConfig.d_model));
    throw_if_error(steps.read_residual(x));
    return x;
  }
  static std::vector<float> encode(text::Umt5Steps& steps, const std::vector<float>& rows) {
    throw_if_error(steps.begin(rows.data(), std::ssize(rows) / kConfig.d_model));
    for (int64_t layer = 0; layer < kConfig.num_layers; ++layer) {
      throw_if_error(steps.attend(layer));
      throw_if_error(steps.feed_forward(layer));
    }
    std::vector<float> out(rows.size());
    throw_if_error(steps.end(out.data()));
    return out;
  }

  RandomUmt5 random_;
  FakeDevice device_;
  std::shared_ptr<device::Memory> memory_;
  std::unique_ptr<text::Umt5Steps> there_, here_;
};
INSTANTIATE_TEST_SUITE_P(Stored, DeviceText, testing::Values(DType::kF32, DType::kBF16),
                         [](const auto& of) { return std::string(name(of.param)); });

TEST_P(DeviceText, EveryStepIsThatOfTheCpu) {
  for (const int64_t tokens : {1, 7, 70}) {
    SCOPED_TRACE(tokens);
    const std::vector<float> rows = prompt(tokens, 5);
    const auto both = [&](const auto& step) {
      throw_if_error(step(*there_));
      throw_if_error(step(*here_));
      EXPECT_LT(relative_l2(residual(*there_, tokens), residual(*here_, tokens)), kSame);
    };
    both([&](text::Umt5Steps& s) { return s.begin(rows.data(), tokens); });
    for (int64_t layer = 0; layer < kConfig.num_layers; ++layer) {
      SCOPED_TRACE(layer);
      both([&](text::Umt5Steps& s) { return s.attend(layer); });
      both([&](text::Umt5Steps& s) { return s.feed_forward(layer); });
    }
    std::vector<float> got(rows.size()), want(rows.size());
    throw_if_error(there_->end(got.data()));
    throw_if_error(here_->end(want.data()));
    EXPECT_LT(relative_l2(got, want), kSame);
  }
}

/// Without a look at each step nothing waits between the layers but the weights themselves.
TEST_P(DeviceText, PromptsFollowEachOther) {
  for (const int64_t tokens : {9, 3, 9, 20}) {
    SCOPED_TRACE(tokens);
    const std::vector<float> rows = prompt(tokens, static_cast<uint64_t>(tokens));
    EXPECT_LT(relative_l2(encode(*there_, rows), encode(*here_, rows)), kSame);
  }
}

/// A run that was cancelled leaves layers that nobody computed.
TEST_P(DeviceText, APromptMayBeGivenUp) {
  const std::vector<float> rows = prompt(9, 2);
  throw_if_error(there_->begin(rows.data(), 9));
  throw_if_error(there_->attend(0));
  throw_if_error(there_->feed_forward(0));
  EXPECT_LT(relative_l2(encode(*there_, rows), encode(*here_, rows)), kSame);
}

TEST_P(DeviceText, TakesTheMemoryThatWasPredictedAndGivesItBack) {
  constexpr int64_t kTokens = 70;
  static_cast<void>(encode(*there_, prompt(kTokens, 1)));
  const int64_t needed = text::device::memory_needed_bytes(kConfig, DType::kF32, kTokens);
  // The bound for the workspace is that of a real device.
  const int64_t workspace = int64_t{32} << 20;
  EXPECT_EQ(memory_->most_bytes_taken() - FakeDevice::kWorkspaceBytes, needed - workspace);
  there_.reset();
  EXPECT_EQ(memory_->bytes_taken(), FakeDevice::kWorkspaceBytes) << "the workspace stays";
}

TEST_P(DeviceText, WhatTheStagesDoNotTakeIsRefusedByName) {
  const auto refused = [&](auto change, const char* text) {
    text::Umt5Weights weights = random_.weights;
    change(weights.config);
    const Status status = text::device::make_steps(weights, memory_).status();
    EXPECT_EQ(status.code(), StatusCode::kUnsupported);
    EXPECT_EQ(status.message(), std::string("[load] text encoder: ") + text);
  };
  refused([](auto& c) { c.d_kv = 32; },
          "d_kv: expected a multiple of 8 up to 24 on the hip backend, got 32");
  refused([](auto& c) { c.d_model = 44; },
          "d_model: expected a multiple of 8 on the hip backend, got 44");
  refused([](auto& c) { c.d_ff = 37; },
          "d_ff: expected a multiple of 8 on the hip backend, got 37");
}

/// XXL takes less than 1 GiB: two layers, and little beside them.
TEST(DeviceTextMemory, OfTheLargestEncoderIsBelowOneGibibyte) {
  const text::Umt5Config xxl{.vocab_size = 256384,
                             .d_model = 4096,
                             .d_kv = 64,
                             .num_heads = 64,
                             .d_ff = 10240,
                             .num_layers = 24};
  const int64_t bytes = text::device::memory_needed_bytes(xxl, DType::kBF16, 512);
  EXPECT_LT(bytes, int64_t{1} << 30);
  EXPECT_GT(bytes, int64_t{2} * 192'937'984 * 2) << "two layers of so many numbers in bf16";
}

/// More than both parts of pinned memory hold, so that a part is filled again.
TEST(DeviceWeightStream, BringsWhatDoesNotFitAtOnce) {
  FakeDevice device;
  device.close();
  const auto memory = device::Memory::of(kFake).value();
  const auto stream = device::WeightStream::make(*memory).value();
  constexpr int64_t kElements = device::WeightStream::kPartBytes / 4 * 5 / 2 + 3;
  std::vector<float> values(kElements);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 65521);
  const nn::Weight weight{.name = "w",
                          .type = io::StorageType::kF32,
                          .shape = {kElements},
                          .bytes = std::as_bytes(std::span(values))};
  nn::Weight scaled = weight;
  scaled.scale = 2.0F;
  const device::Array to = memory->array(kElements * 4).value();
  for (const nn::Weight* each : {&weight, static_cast<const nn::Weight*>(&scaled)}) {
    const DeviceEvent brought = memory->device().make_event().value();
    throw_if_error(stream->bring(to.data(), DType::kF32, *each));
    throw_if_error(stream->record(brought));
    throw_if_error(memory->device().stream().wait_for(brought));
    std::vector<float> got(values.size());
    throw_if_error(memory->copy_out(got.data(), to.data(), to.size_bytes()));
    EXPECT_EQ(got, nn::values(*each));
  }
}

}  // namespace
}  // namespace vsa::test
