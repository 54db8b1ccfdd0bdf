// The VAE's decoder on a device that nobody knows by name, beside the CPU's: the same frames from
// the same weights. The device takes f32, so what is compared is the order of the calls and what
// each of them is given.
#include <gmock/gmock.h>

#include <cmath>

#include "runtime/latents.h"
#include "runtime/vae/cpu/model.h"
#include "runtime/vae/decoder.h"
#include "runtime/vae/device/memory_needed.h"
#include "runtime/vae/device/model.h"
#include "runtime/vae_stage.h"
#include "tests/device_backend/device.h"
#include "tests/runtime_support/arrays.h"
#include "tests/runtime_support/random_vae.h"
#include "tests/runtime_support/tiny_model.h"
#include "tests/unit/runtime/io/files.h"

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

/// The decoder's tensors by diffusers' names, random.
TinyTensors tensors_of(const vae::Network& network) {
  TinyTensors tensors;
  const auto add = [&](const std::string& name, std::vector<int64_t> shape, bool is_gamma = false) {
    int64_t size = 1;
    for (const int64_t extent : shape) size *= extent;
    std::vector<float> values = normal_f32(size, tensors.size());
    const float scale = 1.0F / std::sqrt(static_cast<float>(size / shape.front()));
    for (float& v : values) v = is_gamma ? 1.0F + 0.2F * v : scale * v;
    tensors[name] = {.shape = std::move(shape), .values = std::move(values)};
  };
  const auto conv = [&](const std::string& name, std::vector<int64_t> shape) {
    add(name + ".bias", {shape.front()});
    add(name + ".weight", std::move(shape));
  };
  for (const vae::Layer& layer : network.layers) {
    const auto& [kind, name, in, out, temporal] = layer;
    using enum vae::LayerKind;
    if (kind == kPointwise) conv(name, {out, in, 1, 1, 1});
    if (kind == kConv) conv(name, {out, in, 3, 3, 3});
    if (kind == kHead) {
      add(name + ".norm_out.gamma", {in, 1, 1, 1}, true);
      conv(name + ".conv_out", {out, in, 3, 3, 3});
    }
    if (kind == kResidual) {
      add(name + ".norm1.gamma", {in, 1, 1, 1}, true);
      conv(name + ".conv1", {out, in, 3, 3, 3});
      add(name + ".norm2.gamma", {out, 1, 1, 1}, true);
      conv(name + ".conv2", {out, out, 3, 3, 3});
      if (in != out) conv(name + ".conv_shortcut", {out, in, 1, 1, 1});
    }
    if (kind == kAttention) {
      add(name + ".norm.gamma", {in, 1, 1}, true);
      conv(name + ".to_qkv", {3 * in, in, 1, 1});
      conv(name + ".proj", {in, in, 1, 1});
    }
    if (kind == kUpsample) {
      conv(name + ".resample.1", {out, in, 3, 3});
      if (temporal) conv(name + ".time_conv", {2 * in, in, 3, 1, 1});
    }
  }
  return tensors;
}

/// A VAE in a file, decoded by the stage of a run.
class DeviceVaeStage : public testing::Test {
 protected:
  DeviceVaeStage() {
    write_tensors(folder_ / "vae.safetensors", tensors_of(vae::decoder_network(small())));
    checkpoint_ = io::Checkpoint::open(folder_ / "vae.safetensors").value();
    device_.close();
  }
  Result<runtime::ReadyDecoder> decoder(BackendId backend) const {
    return runtime::make_decoder(small(), checkpoint_, kShape, backend, -1);
  }

  const std::vector<int64_t> kShape{16, 2, kHeight, kWidth};
  ScratchDirectory folder_;
  io::Checkpoint checkpoint_;
  FakeDevice device_;
};

TEST_F(DeviceVaeStage, TheDecoderRunsWhereTheBackendIs) {
  runtime::Latents latents;
  latents.values = nn::Buffer(16 * 2 * kHeight * kWidth);
  latents.shape = kShape;
  std::ranges::copy(normal_f32(latents.values.size(), 5), latents.values.data());
  const auto frames_of = [&](BackendId backend) {
    const runtime::ReadyDecoder ready = decoder(backend).value();
    EXPECT_EQ(ready.memory != nullptr, backend == kFake);
    return runtime::decode_latents(latents, *ready.model,
                                   {.split = ready.split, .on_layer = {}, .feed = {}})
        .value()
        .rgb;
  };
  const std::vector<uint8_t> want = frames_of(BackendId::kCpu);
  EXPECT_EQ(device_.num_calls, 0);
  const std::vector<uint8_t> got = frames_of(kFake);
  EXPECT_GT(device_.num_calls, 100);
  ASSERT_EQ(got.size(), want.size());
  int largest = 0;  // a value near the border between two bytes may fall to the other side
  for (size_t i = 0; i < want.size(); ++i) {
    largest = std::max(largest, std::abs(int{got[i]} - int{want[i]}));
  }
  EXPECT_LE(largest, 1);
}

TEST_F(DeviceVaeStage, TooLittleMemoryIsToldWithTheFigure) {
  device_.available_bytes = int64_t{16} << 20;
  const Status status = decoder(kFake).status();
  EXPECT_EQ(status.code(), StatusCode::kOutOfMemory);
  EXPECT_THAT(status.message(),
              testing::MatchesRegex("\\[generate\\] device memory: expected at least 0.0. GiB "
                                    "available for the VAE, got 0.02 GiB; ask for fewer frames or "
                                    "a smaller size, or take --backend cpu"));
  EXPECT_EQ(device_.num_copies, 0);
}

}  // namespace
}  // namespace vsa::test
