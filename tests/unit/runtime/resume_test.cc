// A run that was interrupted goes on with the same bits, and only as the run that it was.
#include "runtime/resume.h"

#include <atomic>

#include "tests/unit/runtime/pipeline_fixture.h"

namespace vsa::runtime {
namespace {

using testing::HasSubstr;

class Resume : public Pipeline {
 protected:
  static test::TinyModel unipc_model() {
    test::TinyModel model;
    model.index["scheduler"] = {"diffusers", "UniPCMultistepScheduler"};
    model.scheduler = {{"_class_name", "UniPCMultistepScheduler"},
                       {"prediction_type", "flow_prediction"},
                       {"use_flow_sigmas", true},
                       {"flow_shift", 3.0}};
    return model;
  }

  GenerateOptions four_steps() const {
    GenerateOptions options = Pipeline::options();
    options.steps = 4;
    return options;
  }

  /// Runs until `steps` whole steps are done: 2 passes of 3 layers each, and one layer.
  void interrupt(GenerateOptions options, int64_t steps) {
    std::atomic<bool> cancel = false;
    options.on_progress = [&](const Progress& progress) {
      cancel = progress.stage == Progress::Stage::kDenoise && progress.done == 6 * steps + 1;
    };
    options.cancel = &cancel;
    ASSERT_EQ(fail(options).code(), StatusCode::kCancelled);
    ASSERT_EQ(load_latents(options.latents).value().steps_done, steps);
  }

  void expect_same_bits_after_every_step() {
    const video::Frames want = run(four_steps());
    const nn::Buffer whole = load_latents(four_steps().latents).value().values;
    for (int64_t steps = 0; steps < 4; ++steps) {
      interrupt(four_steps(), steps);
      GenerateOptions resumed = four_steps();
      resumed.resume = folder_ / "begun.safetensors";
      std::filesystem::rename(resumed.latents, resumed.resume);
      EXPECT_EQ(run(resumed).rgb, want.rgb) << steps;
      const Latents latents = load_latents(resumed.latents).value();
      EXPECT_TRUE(std::ranges::equal(latents.values.span(), whole.span())) << steps;
      EXPECT_EQ(latents.steps_done, 4);
      EXPECT_TRUE(latents.state.empty());
      EXPECT_EQ(report_.step_reports.size(), static_cast<size_t>(4 - steps));
    }
  }
};

TEST_F(Resume, EulerGoesOnWithTheSameBits) {
  write(test::TinyModel());
  expect_same_bits_after_every_step();
}

TEST_F(Resume, UniPcGoesOnWithTheSameBits) {
  write(unipc_model());
  expect_same_bits_after_every_step();
}

TEST_F(Resume, OnlyARunWithoutAStepMayHaveNoHashOfItsWeights) {
  write(test::TinyModel());
  const std::vector<uint8_t> want = run(four_steps()).rgb;
  for (const int64_t steps : {0, 1}) {
    interrupt(four_steps(), steps);
    Latents begun = load_latents(four_steps().latents).value();
    nlohmann::json made_by = nlohmann::json::parse(begun.made_by);
    made_by["transformer_sha256"] = "";
    begun.made_by = made_by.dump();
    GenerateOptions resumed = four_steps();
    resumed.resume = folder_ / "begun.safetensors";
    throw_if_error(save_latents(resumed.resume, begun).status());
    if (steps == 0) {
      EXPECT_EQ(run(resumed).rgb, want);
    } else {
      EXPECT_THAT(fail(resumed).message(),
                  HasSubstr("[resume] transformer: expected the weights of"));
    }
  }
}

TEST_F(Resume, UniPcSavesWhatItNeeds) {
  write(unipc_model());
  for (const auto& [steps, tensors] : {std::pair{0, 0}, {1, 2}, {2, 3}, {3, 3}}) {
    interrupt(four_steps(), steps);
    const Latents begun = load_latents(four_steps().latents).value();
    EXPECT_EQ(std::ssize(begun.state), tensors) << steps;
    EXPECT_EQ(begun.scheduler, "unipc");
  }
}

TEST_F(Resume, WhatIsMissingInTheFileIsNamed) {
  write(unipc_model());
  interrupt(four_steps(), 2);
  Latents begun = load_latents(four_steps().latents).value();
  begun.state.pop_back();
  GenerateOptions resumed = four_steps();
  resumed.resume = folder_ / "begun.safetensors";
  throw_if_error(save_latents(resumed.resume, begun).status());
  EXPECT_THAT(fail(resumed).message(), HasSubstr("[sampler] state: expected"));
  begun.made_by.clear();
  throw_if_error(save_latents(resumed.resume, begun).status());
  EXPECT_THAT(fail(resumed).message(), HasSubstr("not of vsa generate"));
  begun.state.front().values.data()[3] = std::nanf("");
  throw_if_error(save_latents(resumed.resume, begun).status());
  EXPECT_THAT(fail(resumed).message(), HasSubstr("expected finite values"));
}

TEST_F(Resume, AnotherRunIsRefusedBeforeAnythingIsLoaded) {
  write(test::TinyModel());
  interrupt(four_steps(), 1);
  const auto begun = folder_ / "begun.safetensors";
  std::filesystem::rename(four_steps().latents, begun);
  const auto refused = [&](const auto& change, const std::string& text) {
    GenerateOptions other = four_steps();
    other.resume = begun;
    other.on_progress = [](const Progress&) { ADD_FAILURE() << "it started"; };
    change(other);
    expect_refused(other, StatusCode::kInvalidArgument, text);
  };
  refused([](auto& o) { o.seed = 8; }, "[resume] seed: expected 7, as the interrupted run had");
  refused([](auto& o) { o.steps = 5; }, "[resume] steps: expected 4");
  refused([](auto& o) { o.prompt = "a star"; }, "[resume] prompt: expected");
  refused([](auto& o) { o.guidance = 2.5; }, "[resume] guidance: expected");
  refused([](auto& o) { o.topk = 1; }, "[resume] topk: expected 2");
  refused([](auto& o) { o.dense_steps = 1; }, "[resume] dense_steps: expected 0");
  refused([](auto& o) { o.dense_layers = {1}; }, "[resume] dense_layers: expected []");
  refused([](auto& o) { o.order = TokenOrder::kGilbert; }, "[resume] order: expected \"raster\"");
  refused([](auto& o) { o.shift = 5.0; }, "[resume] shift: expected 8");
  refused(
      [](auto& o) { o.scheduler = sampler::SchedulerKind::kUniPc; },
      "[resume] scheduler: expected \"euler-plain\", as the interrupted run had, got \"unipc\"");
  refused([](auto& o) { o.topk = 2, o.size = {{32, 48}}; }, "[resume] width: expected 32");
}

TEST_F(Resume, AFileOfBeforeThereWereOrdersIsOfCuboids) {
  write(test::TinyModel());
  const std::vector<uint8_t> want = run(four_steps()).rgb;
  interrupt(four_steps(), 1);
  Latents begun = load_latents(four_steps().latents).value();
  nlohmann::json made_by = nlohmann::json::parse(begun.made_by);
  ASSERT_EQ(made_by.erase("order"), 1);
  begun.made_by = made_by.dump();
  GenerateOptions resumed = four_steps();
  resumed.resume = folder_ / "begun.safetensors";
  throw_if_error(save_latents(resumed.resume, begun).status());
  EXPECT_EQ(run(resumed).rgb, want);
  resumed.order = TokenOrder::kGilbert;
  EXPECT_THAT(fail(resumed).message(), HasSubstr("[resume] order: expected \"raster\""));
}

TEST_F(Resume, OtherWeightsAreRefused) {
  write(test::TinyModel());
  interrupt(four_steps(), 1);
  GenerateOptions resumed = four_steps();
  resumed.resume = folder_ / "begun.safetensors";
  std::filesystem::rename(resumed.latents, resumed.resume);
  write(test::TinyModel(2));
  expect_refused(resumed, StatusCode::kInvalidArgument,
                 "[resume] transformer: expected the weights of");
  test::TinyModel other_text;
  other_text.text_encoder.at("encoder.final_layer_norm.weight").values[0] += 0.5F;
  write(other_text);
  expect_refused(resumed, StatusCode::kInvalidArgument,
                 "[resume] text-encoder: expected the weights of");
}

}  // namespace
}  // namespace vsa::runtime
