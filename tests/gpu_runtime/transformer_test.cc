// The shipped model's transformer on a card, in bf16, beside the CPU's in f32.
#include "runtime/dit/transformer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "runtime/dit/cpu/model.h"
#include "runtime/dit/device/memory_needed.h"
#include "runtime/dit/device/model.h"
#include "runtime/model_folder.h"
#include "runtime/pipeline.h"
#include "runtime/video/quality.h"
#include "tests/gpu_runtime/card.h"
#include "tests/runtime_support/arrays.h"

namespace vsa::test {
namespace {

/// The folder of the model; VSA_TEST_MODEL where these tests run without the sources.
std::filesystem::path model_folder() {
  const char* const named = std::getenv("VSA_TEST_MODEL");
  if (named != nullptr) return named;
  return std::filesystem::path(VSA_SOURCE_DIR) / "models/wan-toy";
}

constexpr int64_t kValidRows = 9;
constexpr Grid kGrid{8, 16, 16};  // 16 frames of 64x64: 32 tiles of 4x4x4
// bf16 rounds every activation to 2^-9: over 7 layers of three additions each, independent
// roundings of the residual's inputs add up to about sqrt(21) * 2^-9 = 0.9 % of its size.
constexpr double kBf16 = 2e-2;

class GpuTransformer : public testing::Test {
 protected:
  void load() {
    folder_ = runtime::ModelFolder::open(model_folder()).value();
    checkpoint_ = folder_->open_transformer().value();
    dit::LoadReport report;
    weights_ = dit::find_weights(folder_->transformer, checkpoint_, report).value();
    memory_ = device::Memory::of(BackendId::kCuda).value();
    there_ = dit::device::DeviceModel::load(weights_, memory_).value();
  }

  /// The velocity of the last of several equal passes over the same steps.
  std::vector<float> predict(dit::Model& model, int64_t topk, float timestep = 700.0F,
                             int passes = 1) const {
    const int64_t rows = folder_->max_sequence_length;
    text::TextEmbedding text{.rows = nn::Buffer(rows * folder_->transformer.text_dim),
                             .num_rows = rows,
                             .num_valid = kValidRows};
    std::fill_n(text.rows.data(), text.rows.size(), 0.0F);
    std::ranges::copy(normal_f32(kValidRows * folder_->transformer.text_dim, 8), text.rows.data());
    const auto context = model.prepare_text(text).value();
    const auto steps = model.make_steps(kGrid, TilePlan::grid(kGrid, {4, 4, 4}).value()).value();
    const auto latents = normal_f32(
        kGrid.num_tokens() * folder_->transformer.patch.volume() * folder_->transformer.in_channels,
        9);
    std::vector<float> velocity(latents.size());
    const std::vector<int64_t> kept(static_cast<size_t>(folder_->transformer.num_layers), topk);
    for (int pass = 0; pass < passes; ++pass) {
      std::ranges::fill(velocity, 0.0F);
      throw_if_error(dit::forward({.latents = latents.data(),
                                   .timestep = timestep,
                                   .text = context.get(),
                                   .topk = kept,
                                   .on_layer = {},
                                   .velocity = velocity.data()},
                                  *steps, {}));
    }
    return velocity;
  }

  std::optional<runtime::ModelFolder> folder_;
  io::Checkpoint checkpoint_;
  dit::WanWeights weights_;
  std::shared_ptr<device::Memory> memory_;
  std::unique_ptr<dit::Model> there_;
};

TEST_F(GpuTransformer, PredictsWhatTheCpuPredicts) {
  VSA_NEEDS_CARD("cuBLAS");
  load();
  const auto here = dit::cpu::make_model(weights_, Context{}).value();
  // Of all tiles: a selection of a few may differ where two scores are nearly equal.
  const int64_t all = TilePlan::grid(kGrid, {4, 4, 4}).value().num_tiles();
  for (const float timestep : {990.0F, 700.0F, 100.0F}) {
    SCOPED_TRACE(timestep);
    EXPECT_LT(relative_l2(predict(*there_, all, timestep), predict(*here, all, timestep)), kBf16);
  }
}

TEST_F(GpuTransformer, GivesTheSameBitsTwice) {
  VSA_NEEDS_CARD("cuBLAS");
  load();
  EXPECT_EQ(predict(*there_, 4), predict(*there_, 4));
}

TEST_F(GpuTransformer, OffloadedGivesTheSameBits) {
  VSA_NEEDS_CARD("cuBLAS");
  load();
  const auto offloaded = dit::device::DeviceModel::load(weights_, memory_, true).value();
  const auto want = predict(*there_, 4);
  EXPECT_EQ(predict(*offloaded, 4), want);
  EXPECT_EQ(predict(*offloaded, 4, 700.0F, 3), want) << "replayed";
}

TEST_F(GpuTransformer, ReplayedGivesTheSameBits) {
  VSA_NEEDS_CARD("cuBLAS");
  load();
  for (const int64_t topk : {4, 32}) {
    EXPECT_EQ(predict(*there_, topk, 700.0F, 3), predict(*there_, topk));
  }
}

TEST_F(GpuTransformer, TakesTheMemoryThatWasPredicted) {
  VSA_NEEDS_CARD("cuBLAS");
  load();
  static_cast<void>(predict(*there_, 4));
  const int64_t needed = dit::device::memory_needed_bytes(weights_, {.token_dtype = DType::kBF16,
                                                                     .grid = kGrid,
                                                                     .num_tiles = 32,
                                                                     .topk = 4,
                                                                     .text_rows = kValidRows + 1});
  EXPECT_NEAR(static_cast<double>(memory_->most_bytes_taken()), static_cast<double>(needed),
              0.1 * static_cast<double>(needed));
}

TEST(GpuRuntime, GeneratesTheVideoOfTheCpu) {
  VSA_NEEDS_CARD("cuBLAS");
  runtime::GenerateOptions options;
  options.model = model_folder();
  options.prompt = "a red circle moving right";
  options.seed = 3;
  options.attention = runtime::Attention::kDense;
  runtime::GenerateReport report;
  const auto want = runtime::generate(options, report);
  ASSERT_TRUE(want.ok()) << want.status().message();
  options.backend = BackendId::kCuda;
  const auto got = runtime::generate(options, report);
  ASSERT_TRUE(got.ok()) << got.status().message();
  const auto again = runtime::generate(options, report);
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_TRUE(got->rgb == again->rgb) << "the same seed on one card";
  const auto quality = video::compare(*got, *want);
  ASSERT_TRUE(quality.ok()) << quality.status().message();
  for (const video::FrameQuality& frame : *quality) EXPECT_GT(frame.psnr_db, 30.0);
}

}  // namespace
}  // namespace vsa::test
