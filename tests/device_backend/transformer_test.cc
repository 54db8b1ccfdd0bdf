// The transformer on a device that nobody knows by name, beside the CPU's: the same numbers from
// the same weights. The device takes f32, so what is compared is the order of steps and what each
// of them is given.
#include "runtime/dit/transformer.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "runtime/dit/cpu/model.h"
#include "runtime/dit/device/memory_needed.h"
#include "runtime/dit/device/model.h"
#include "runtime/pipeline.h"
#include "tests/device_backend/device.h"
#include "tests/runtime_support/arrays.h"
#include "tests/runtime_support/tiny_model.h"
#include "tests/unit/runtime/io/files.h"

namespace vsa::test {
namespace {

constexpr BackendId kFake = BackendId::kHip;
constexpr Grid kGrid{3, 5, 7};  // 8 tiles of 2x4x4, most of them partial; 105 tokens in 2 runs
constexpr TileShape kTile{2, 4, 4};
constexpr int64_t kLayers = 3, kTextDim = 24, kTextRows = 70, kValidRows = 5;
// Both compute in f32, with sums in another order: near 1e-6 after three layers.
constexpr double kSame = 2e-5;

text::TextEmbedding some_text() {
  text::TextEmbedding text{
      .rows = nn::Buffer(kTextRows * kTextDim), .num_rows = kTextRows, .num_valid = kValidRows};
  std::fill_n(text.rows.data(), text.rows.size(), 0.0F);
  std::ranges::copy(normal_f32(kValidRows * kTextDim, 8), text.rows.data());
  return text;
}

/// A tiny model on the device and on the CPU.
class DeviceTransformer : public testing::TestWithParam<bool> {
 protected:
  DeviceTransformer() {
    const TinyModel tiny(1, GetParam());
    tiny.write(folder_.path());
    checkpoint_ = io::Checkpoint::open(folder_ / "transformer").value();
    std::vector<std::string> ignored;
    const auto config = dit::parse_wan_config(tiny.transformer_config, "c", ignored).value();
    dit::LoadReport report;
    weights_ = dit::find_weights(config, checkpoint_, report).value();
    device_.close();
    there_ = dit::device::DeviceModel::load(weights_, device::Memory::of(kFake).value()).value();
    here_ = dit::cpu::make_model(weights_, Context{}).value();
  }

  /// A model's text and steps.
  struct Ready {
    explicit Ready(dit::Model& model)
        : text(model.prepare_text(some_text()).value()),
          steps(model.make_steps(kGrid, TilePlan::grid(kGrid, kTile).value()).value()) {}
    std::unique_ptr<dit::TextContext> text;
    std::unique_ptr<dit::Steps> steps;

    std::vector<float> residual() const {
      std::vector<float> x(static_cast<size_t>(kGrid.num_tokens() * steps->config().width()));
      throw_if_error(steps->read_residual(x));
      return x;
    }
  };

  std::vector<float> predict(const Ready& ready, float timestep, int64_t topk,
                             std::span<dit::LayerStats> stats) const {
    std::vector<float> velocity(latents_.size());
    const std::vector<int64_t> kept(kLayers, topk);
    throw_if_error(dit::forward({.latents = latents_.data(),
                                 .timestep = timestep,
                                 .text = ready.text.get(),
                                 .topk = kept,
                                 .on_layer = {},
                                 .velocity = velocity.data()},
                                *ready.steps, stats));
    return velocity;
  }

  ScratchDirectory folder_;
  io::Checkpoint checkpoint_;
  dit::WanWeights weights_;
  FakeDevice device_;
  std::unique_ptr<dit::Model> there_, here_;
  const std::vector<float> latents_ = normal_f32(kGrid.num_tokens() * 3 * 32, 9);
};
INSTANTIATE_TEST_SUITE_P(Each, DeviceTransformer, testing::Bool(),
                         [](const auto& each) { return each.param ? "Gated" : "Ungated"; });

TEST_P(DeviceTransformer, EveryStepIsThatOfTheCpu) {
  const Ready got(*there_);
  const Ready want(*here_);
  for (const int64_t topk : {int64_t{3}, got.steps->plan().num_tiles()}) {
    SCOPED_TRACE(topk);
    const auto both = [&](const auto& step) {
      throw_if_error(step(got));
      throw_if_error(step(want));
      EXPECT_LT(relative_l2(got.residual(), want.residual()), kSame);
    };
    both([&](const Ready& r) { return r.steps->begin(latents_.data(), 400.0F); });
    for (int64_t layer = 0; layer < kLayers; ++layer) {
      SCOPED_TRACE(layer);
      for (const Ready* r : {&got, &want}) {
        int64_t kept = 0;
        throw_if_error(r->steps->project(layer));
        throw_if_error(r->steps->attend_self(layer, topk, &kept));
        EXPECT_EQ(kept, r->steps->config().num_heads * r->steps->plan().num_tiles() * topk);
      }
      both([&](const Ready& r) { return r.steps->attend_text(layer, *r.text); });
      both([&](const Ready& r) { return r.steps->feed_forward(layer); });
      EXPECT_TRUE(got.steps->finite().value());
    }
  }
}

TEST_P(DeviceTransformer, PredictsWhatTheCpuPredicts) {
  const Ready got(*there_);
  const Ready want(*here_);
  for (const float timestep : {900.0F, 37.5F, 900.0F}) {
    for (const int64_t topk : {int64_t{1}, got.steps->plan().num_tiles()}) {
      SCOPED_TRACE(testing::Message() << timestep << " top " << topk);
      std::vector<dit::LayerStats> stats(kLayers);
      const auto looked_at = predict(got, timestep, topk, stats);
      EXPECT_LT(relative_l2(looked_at, predict(want, timestep, topk, {})), kSame);
      // Without looking at each layer the host waits for the velocity alone.
      const int waits = device_.num_copies;
      EXPECT_EQ(predict(got, timestep, topk, {}), looked_at);
      EXPECT_LE(device_.num_copies - waits, 3) << "patches, modulations, velocity";
    }
  }
}

TEST_P(DeviceTransformer, ItsMemoryIsGivenBack) {
  auto memory = device::Memory::of(kFake).value();
  {
    const auto model = dit::device::DeviceModel::load(weights_, memory).value();
    const Ready ready(*model);
    static_cast<void>(predict(ready, 500.0F, 1, {}));
    const int64_t needed = dit::device::memory_needed_bytes(
        weights_, {.token_dtype = DType::kF32,
                   .grid = kGrid,
                   .num_tiles = ready.steps->plan().num_tiles(),
                   .topk = 1,
                   .text_rows = dit::device::rows_kept(some_text())});
    // The bound for the workspace is that of a real device.
    const int64_t workspace = int64_t{32} << 20;
    EXPECT_NEAR(static_cast<double>(needed - workspace),
                static_cast<double>(memory->bytes_taken() - FakeDevice::kWorkspaceBytes),
                0.001 * static_cast<double>(memory->bytes_taken()));
  }
  EXPECT_EQ(memory->bytes_taken(), FakeDevice::kWorkspaceBytes) << "the workspace stays";
  EXPECT_GT(memory->most_bytes_taken(), FakeDevice::kWorkspaceBytes);
}

TEST_P(DeviceTransformer, OffloadedItPredictsTheSameAndTakesAsPredicted) {
  auto memory = device::Memory::of(kFake).value();
  const auto model = dit::device::DeviceModel::load(weights_, memory, true).value();
  const Ready ready(*model);
  const Ready whole(*there_);
  for (const int64_t topk : {int64_t{2}, ready.steps->plan().num_tiles()}) {
    const auto want = predict(whole, 300.0F, topk, {});
    EXPECT_EQ(predict(ready, 300.0F, topk, {}), want);
    EXPECT_EQ(predict(ready, 300.0F, topk, {}), want) << "the layers come in each pass";
  }
  const auto needed = [&](bool offload) {
    return dit::device::memory_needed_bytes(weights_,
                                            {.token_dtype = DType::kF32,
                                             .grid = kGrid,
                                             .num_tiles = ready.steps->plan().num_tiles(),
                                             .topk = ready.steps->plan().num_tiles(),
                                             .text_rows = dit::device::rows_kept(some_text()),
                                             .offload = offload}) -
           (int64_t{32} << 20);
  };
  EXPECT_NEAR(static_cast<double>(needed(true)),
              static_cast<double>(memory->bytes_taken() - FakeDevice::kWorkspaceBytes),
              0.01 * static_cast<double>(memory->bytes_taken()));
  EXPECT_LT(needed(true), needed(false)) << "two layers of three are there";
}

/// A run of that model on the device.
runtime::GenerateOptions on_device(const std::filesystem::path& model) {
  runtime::GenerateOptions options;
  options.model = model;
  options.prompt = "a star";
  options.backend = kFake;
  return options;
}

/// From the prompt to the frames; the sampler is the same.
TEST(DeviceRuntime, GeneratesTheVideoOfTheCpu) {
  const ScratchDirectory folder;
  TinyModel tiny(1);
  tiny.write(folder.path());
  FakeDevice device;
  device.close();
  runtime::GenerateOptions options = on_device(folder.path());
  options.backend = BackendId::kCpu;
  options.seed = 4;
  options.steps = 3;
  runtime::GenerateReport report;
  const auto want = runtime::generate(options, report);
  ASSERT_TRUE(want.ok()) << want.status().message();
  const double kept = report.kept_share;
  options.backend = kFake;
  const auto got = runtime::generate(options, report);
  ASSERT_TRUE(got.ok()) << got.status().message();
  EXPECT_EQ(report.kept_share, kept);
  EXPECT_GT(device.num_calls, 100);
  const int encodings = report.guidance == 1.0 ? 1 : 2;
  EXPECT_EQ(device.num_calls_of["relative_attention"], 2 * encodings) << "two layers of text";
  ASSERT_EQ(got->rgb.size(), want->rgb.size());
  int largest = 0;
  for (size_t i = 0; i < want->rgb.size(); ++i) {
    largest = std::max(largest, std::abs(int{got->rgb[i]} - int{want->rgb[i]}));
  }
  EXPECT_LE(largest, 1) << "of 255";
}

TEST(DeviceRuntime, ANanIsTracedToItsLayer) {
  const ScratchDirectory folder;
  TinyModel tiny(1);
  for (const char* name : {"blocks.1.ffn.net.0.proj.weight", "blocks.1.ffn.net.2.weight"}) {
    std::ranges::fill(tiny.transformer[name].values, 1e30F);  // finite, and their product is not
  }
  tiny.write(folder.path());
  FakeDevice device;
  device.close();
  runtime::GenerateReport report;
  const Status status = runtime::generate(on_device(folder.path()), report).status();
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_THAT(status.message(), testing::HasSubstr("layer 1: expected finite values"));
}

TEST(DeviceRuntime, TooLittleMemoryIsToldBeforeAnythingIsLoaded) {
  const ScratchDirectory folder;
  TinyModel(1).write(folder.path());
  FakeDevice device;
  device.available_bytes = int64_t{32} << 20;
  device.close();
  runtime::GenerateReport report;
  const Status status = runtime::generate(on_device(folder.path()), report).status();
  EXPECT_EQ(status.code(), StatusCode::kOutOfMemory);
  EXPECT_THAT(status.message(),
              testing::HasSubstr("device memory: expected at least 0.03 GiB available for the "
                                 "transformer, got 0.03 GiB"));
  EXPECT_EQ(device.num_calls, 0);
  EXPECT_EQ(device.num_copies, 0);
}

/// The shipped model has heads of 64, which this device does not take.
TEST(DeviceRuntime, WhatTheStagesDoNotTakeIsRefusedByName) {
  FakeDevice device;
  device.close();
  runtime::GenerateReport report;
  const Status status =
      runtime::generate(on_device(std::string(VSA_SOURCE_DIR) + "/models/wan-toy"), report)
          .status();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(),
              testing::HasSubstr("expected a model whose head_dim is a multiple of 8 up to 24"));
}

}  // namespace
}  // namespace vsa::test
