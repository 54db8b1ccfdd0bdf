// The VAE's decoder on a device that nobody knows by name, beside the CPU's: the same frames from
// the same weights. The device takes f32, so what is compared is the order of the calls and what
// each of them is given.
#include <gmock/gmock.h>

#include <cmath>

#include "runtime/vae/cpu/model.h"
#include "runtime/vae/decoder.h"
#include "runtime/vae/device/memory_needed.h"
#include "runtime/vae/device/model.h"
#include "tests/device_backend/device.h"
#include "tests/runtime_support/arrays.h"
#include "tests/runtime_support/random_vae.h"

namespace vsa::test {
namespace {

using vae::Order;
using vae::Split;

constexpr BackendId kFake = BackendId::kHip;
// 15 pixels of latents, which is no multiple of 8.
constexpr int64_t kFrames = 4, kHeight = 5, kWidth = 3;
// Both compute in f32, with sums in another order: near 1e-6 after 21 layers.
constexpr double kSame = 2e-5;

/// Every structure of the published model, with 12 times fewer channels.
vae::VaeConfig small() {
  vae::VaeConfig config;
  config.base_dim = 8;
  return config;
}

class DeviceVae : public testing::Test {
 protected:
  DeviceVae() { device_.close(); }

  std::vector<float> decoded(vae::Model& model, Split split, int64_t frames = kFrames) {
    std::vector<float> rgb;
    throw_if_error(status_of(model, split, frames, &rgb));
    return rgb;
  }
  Status status_of(vae::Model& model, Split split, int64_t frames, std::vector<float>* rgb) {
    return vae::decode({.latents = latents_.data(),
                        .frames = frames,
                        .height = kHeight,
                        .width = kWidth,
                        .split = split,
                        .on_frames = [rgb](const vae::FrameChunk& chunk) -> Status {
                          rgb->insert(rgb->end(), chunk.rgb.begin(), chunk.rgb.end());
                          return {};
                        },
                        .control = {}},
                       model);
  }
  std::unique_ptr<vae::Model> there() {
    return vae::device::DeviceModel::load(random_.weights(vae::Half::kDecoder), memory_).value();
  }
  std::unique_ptr<vae::Model> here() {
    return vae::cpu::make_model(random_.weights(vae::Half::kDecoder)).value();
  }

  FakeDevice device_;
  std::shared_ptr<device::Memory> memory_ = device::Memory::of(kFake).value();
  RandomVae random_{small()};
  std::vector<float> latents_ = normal_f32(16 * kFrames * kHeight * kWidth, 3);
};

TEST_F(DeviceVae, GivesTheFramesOfTheCpuForEverySplit) {
  const std::vector<float> want = decoded(*here(), {});
  ASSERT_EQ(want.size(), 13U * 40 * 24 * 3);
  const auto model = there();
  for (const Split split : {Split{}, Split{.chunk = 2, .stripes = 2},
                            Split{.chunk = 3, .stripes = 5, .order = Order::kStripes}}) {
    SCOPED_TRACE(testing::Message() << split.chunk << " latent frames, " << split.stripes);
    EXPECT_LT(relative_l2(decoded(*model, split), want), kSame);
  }
}

TEST_F(DeviceVae, OfOneFrameAlone) {
  EXPECT_LT(relative_l2(decoded(*there(), {}, 1), decoded(*here(), {}, 1)), kSame);
}

TEST_F(DeviceVae, TakesTheMemoryThatWasCounted) {
  const auto model = there();
  int64_t before = 0;
  for (const Split split :
       {Split{.stripes = 3, .order = Order::kStripes}, Split{.chunk = 2}, Split{.stripes = 3}}) {
    decoded(*model, split, 3);
    const int64_t counted = vae::device::memory_needed_bytes(
        small(), {.frames = 3, .height = kHeight, .width = kWidth}, split, DType::kF32);
    // Beside the fake device's own workspace.
    const int64_t other = (int64_t{32} << 20) - FakeDevice::kWorkspaceBytes;
    EXPECT_EQ(memory_->most_bytes_taken() + other, counted) << split.stripes;
    EXPECT_GT(counted, before) << "so that the most is of this split";
    before = counted;
  }
}

TEST_F(DeviceVae, ASplitIsChosenByTheMemoryThereIs) {
  const vae::VaeConfig wan;
  const vae::device::LatentSize size{.frames = 21, .height = 60, .width = 104};
  const auto chosen = [&](int64_t gib) {
    const Split split = vae::device::choose_split(wan, size, gib << 30, DType::kBF16);
    EXPECT_LE(vae::device::memory_needed_bytes(wan, size, split, DType::kBF16), gib << 30) << gib;
    return split;
  };
  const Split most = chosen(64);
  EXPECT_EQ(most.chunk, 4);
  EXPECT_EQ(most.stripes, 1);
  const Split less = chosen(4);
  EXPECT_LT(less.chunk, 4);
  const Split least = chosen(2);
  EXPECT_GT(least.stripes, 1);
  // Memory for all of 4K, but cuDNN's fast engines count with 32 bits.
  const vae::device::LatentSize large{.frames = 21, .height = 270, .width = 480};
  EXPECT_GT(vae::device::choose_split(wan, large, int64_t{1} << 40, DType::kBF16).stripes, 1);
  // Nothing fits into a byte: then the least, which is said elsewhere.
  EXPECT_GT(vae::device::choose_split(wan, size, 1, DType::kBF16).stripes, 1);
}

TEST_F(DeviceVae, ANumberThatIsNotFiniteEndsTheDecoding) {
  vae::VaeWeights weights = random_.weights(vae::Half::kDecoder);
  weights.layers[5].conv.weight.scale = std::nanf("");
  const auto model = vae::device::DeviceModel::load(weights, memory_).value();
  std::vector<float> rgb;
  const Status status = status_of(*model, {}, kFrames, &rgb);
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_EQ(status.message(),
            "[decode] up to decoder: expected finite values, got NaN or infinity in chunk 0");
  EXPECT_TRUE(rgb.empty());
}

TEST_F(DeviceVae, WhatADeviceDoesNotTakeIsRefusedByName) {
  vae::VaeConfig narrow;
  narrow.base_dim = 12;
  const RandomVae random(narrow);
  const auto refused = [&](vae::Half half, const std::string& layer) {
    const Status status = vae::device::DeviceModel::load(random.weights(half), memory_).status();
    EXPECT_EQ(status.code(), StatusCode::kUnsupported);
    EXPECT_THAT(status.message(), testing::StartsWith("[load] " + layer + ": expected a layer"));
  };
  refused(vae::Half::kDecoder, "decoder.up_blocks.2.upsamplers.0");
  refused(vae::Half::kEncoder, "encoder.conv_in");
}

}  // namespace
}  // namespace vsa::test
