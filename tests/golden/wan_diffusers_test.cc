// A tiny Wan2.1 against diffusers: the transformer alone, and with LoRAs of peft (README.md here).
#include <gtest/gtest.h>

#include <filesystem>

#include "runtime/dit/cpu/model.h"
#include "runtime/dit/transformer.h"
#include "runtime/model_folder.h"
#include "runtime/text/cpu/umt5_steps.h"
#include "runtime/text/umt5.h"
#include "tests/runtime_support/arrays.h"
#include "tests/runtime_support/rename.h"
#include "tests/runtime_support/stored_tensors.h"
#include "tests/support/compare.h"
#include "tests/unit/runtime/io/files.h"

namespace vsa {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = fs::path(VSA_SOURCE_DIR) / "tests/golden/wan-diffusers";
// Both sides sum in f32, in other orders; a wrong convention is off by more than 1e-2.
constexpr double kRelativeL2 = 1e-5;

class WanDiffusers : public testing::Test {
 protected:
  std::vector<float> golden(const std::string& name) const {
    return test::golden_tensor(expected_, name).values;
  }

  static void expect_near(const std::vector<float>& got, const std::vector<float>& want) {
    ASSERT_EQ(got.size(), want.size());
    EXPECT_LT(test::relative_l2(got, want), kRelativeL2);
  }

  text::TextEmbedding embedding(const runtime::ModelFolder& model) const {
    const auto weights = model.open_text_encoder().value();
    nn::LoadSummary summary;
    auto found = text::find_umt5_weights(model.text_encoder, weights, summary).value();
    auto steps = text::cpu::make_steps(found).value();
    const auto ids = model.open_tokenizer()
                         .value()
                         .encode(expected_.metadata().at("prompt"), model.max_sequence_length)
                         .value()
                         .ids;
    return text::Umt5Encoder(std::move(found), std::move(steps))
        .encode(ids, model.max_sequence_length)
        .value();
  }

  struct Variation {
    fs::path transformer;  ///< of PartPaths
    BackendId backend = BackendId::kCpu;
    std::vector<dit::LoraSpec> loras{};
  };
  /// What the model makes of the golden latents, all tiles kept.
  std::vector<float> velocity(const Variation& variation) const {
    const auto model =
        runtime::ModelFolder::open(
            kFolder,
            {.variant = "",
             .parts = {.transformer = variation.transformer, .vae = {}, .text_encoder = {}}})
            .value();
    const auto checkpoint = model.open_transformer().value();
    dit::LoadReport report;
    const auto weights =
        dit::find_weights(model.transformer, checkpoint, report, variation.loras).value();
    EXPECT_TRUE(report.summary.unused.empty());
    EXPECT_FALSE(report.has_gates);
    const auto transformer =
        dit::cpu::make_model(weights, Context{.backend = variation.backend}).value();
    const Grid grid{5, 4, 3};
    const TilePlan plan = TilePlan::grid(grid, {4, 4, 4}).value();
    const auto layers = static_cast<size_t>(model.transformer.num_layers);
    const std::vector<int64_t> topk(layers, plan.num_tiles());
    const auto steps = transformer->make_steps(grid, plan).value();
    const auto text = transformer->prepare_text(embedding(model)).value();
    const std::vector<float> latents = golden("latents");
    std::vector<float> velocity(latents.size());
    std::vector<dit::LayerStats> stats(layers);
    throw_if_error(dit::forward({.latents = latents.data(),
                                 .timestep = 757.0F,
                                 .text = text.get(),
                                 .topk = topk,
                                 .on_layer = {},
                                 .velocity = velocity.data()},
                                *steps, stats));
    return velocity;
  }

  test::ScratchDirectory scratch_;
  io::SafetensorsFile expected_ =
      io::SafetensorsFile::open(kFolder / "expected.safetensors").value();
};

TEST_F(WanDiffusers, R10_TheTextHas512RowsOfWhichThoseOfPaddingAreZeros) {
  const auto model = runtime::ModelFolder::open(kFolder).value();
  const text::TextEmbedding text = embedding(model);
  EXPECT_EQ(text.num_rows, 512);
  const std::vector<float> want = golden("text");
  const auto rows = text.rows.span();
  expect_near({rows.begin(), rows.begin() + std::ssize(want)}, want);
}

TEST_F(WanDiffusers, VelocityWithoutGates) { expect_near(velocity({}), golden("velocity")); }

TEST_F(WanDiffusers, VelocityUnderWansNames) {
  const auto model = runtime::ModelFolder::open(kFolder).value();
  const auto tensors = test::tensors_of(model.open_transformer().value());
  const fs::path file = scratch_ / "wan2.1_t2v.safetensors";
  test::TinyTensors prefixed;
  for (const auto& [name, tensor] : test::with_wan_names(tensors)) {
    prefixed["model.diffusion_model." + name] = tensor;
  }
  test::write_tensors(file, prefixed);
  EXPECT_EQ(velocity({.transformer = file}), velocity({}));
}

TEST_F(WanDiffusers, VelocityWithHeadsOf12) {
  expect_near(velocity({.transformer = kFolder / "narrow", .backend = BackendId::kReference}),
              golden("velocity.narrow"));
}

TEST_F(WanDiffusers, VelocityWithLorasOfPeft) {
  const std::vector<float> want = golden("velocity.lora");
  for (const char* file : {"lora-diffusers.safetensors", "lora-wan.safetensors"}) {
    SCOPED_TRACE(file);
    expect_near(velocity({.transformer = {}, .loras = {{.file = kFolder / file}}}), want);
  }
  // Half and half, and without: the comparison can fail.
  expect_near(velocity({.transformer = {},
                        .loras = {{.file = kFolder / "lora-wan.safetensors", .strength = 0.5},
                                  {.file = kFolder / "lora-wan.safetensors", .strength = 0.5}}}),
              want);
  const std::vector<float> bare = golden("velocity");
  double difference = 0.0;
  for (size_t i = 0; i < bare.size(); ++i) {
    difference = std::max(difference, std::abs(double{bare[i]} - want[i]));
  }
  EXPECT_GT(difference, 0.1);
}

}  // namespace
}  // namespace vsa
