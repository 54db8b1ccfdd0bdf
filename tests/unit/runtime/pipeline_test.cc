// The pipeline on a random model: same video for a seed, routes, interruption.
#include "runtime/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "runtime/latents.h"
#include "tests/unit/runtime/pipeline_fixture.h"

namespace vsa::runtime {
namespace {

using testing::HasSubstr;

TEST_F(Pipeline, MakesFramesAndReport) {
  write(test::TinyModel());
  const video::Frames frames = run(options());
  EXPECT_EQ(frames.num_frames, 8);
  EXPECT_EQ(frames.height, 32);
  EXPECT_EQ(frames.width, 32);
  EXPECT_EQ(frames.rgb.size(), 8U * 32 * 32 * 3);
  EXPECT_EQ(report_.steps_done, 2);
  EXPECT_EQ(report_.seed, 7);
  EXPECT_EQ(report_.topk, 2);
  EXPECT_EQ(report_.num_tiles, 4);
  EXPECT_DOUBLE_EQ(report_.kept_share, 0.5);
  ASSERT_EQ(report_.step_reports.size(), 2U);
  EXPECT_DOUBLE_EQ(report_.step_reports[0].timestep, 1000.0);
  // shift 8: 8 * 0.5 / (1 + 7 * 0.5)
  EXPECT_DOUBLE_EQ(report_.step_reports[1].sigma, 8.0 / 9.0);
  ASSERT_EQ(report_.step_reports[0].layers.size(), 3U);
  EXPECT_EQ(report_.step_reports[0].layers[0].route, "vsa");
  EXPECT_EQ(report_.files.size(), 7U);
  EXPECT_EQ(report_.files[0].sha256.size(), 64U);
  EXPECT_GT(report_.peak_memory_bytes, 1 << 20);
  EXPECT_TRUE(report_.transformer.has_gates);
  EXPECT_TRUE(report_.warnings.empty());
  const nlohmann::json json = to_json(report_);
  EXPECT_EQ(json.at("weights").at("transformer").at("naming"), "diffusers");
  EXPECT_EQ(json.at("step_reports").size(), 2U);
}

TEST_F(Pipeline, R24_TheSeedDecidesEveryByte) {
  write(test::TinyModel());
  const video::Frames first = run(options(1));
  EXPECT_EQ(first.rgb, run(options(1)).rgb);
  EXPECT_NE(first.rgb, run(options(2)).rgb);
}

TEST_F(Pipeline, R24_EveryRandomSeedIsAnotherIsRecordedAndRepeats) {
  write(test::TinyModel());
  GenerateOptions random = options();
  random.seed = -1;
  std::set<int64_t> seeds;
  std::set<std::string> videos;  // as strings: g++ 12 warns of comparing vectors of bytes
  for (int i = 0; i < 3; ++i) {  // two equal ones of 31 bits: once in 7e8 runs of this test
    const video::Frames frames = run(random);
    ASSERT_GE(report_.seed, 0);
    EXPECT_EQ(decode({.latents = random.latents}).value().seed, report_.seed);
    GenerateOptions again = random;
    again.seed = report_.seed;
    EXPECT_EQ(run(again).rgb, frames.rgb);
    seeds.insert(again.seed);
    videos.emplace(frames.rgb.begin(), frames.rgb.end());
  }
  EXPECT_EQ(seeds.size(), 3U);
  EXPECT_EQ(videos.size(), 3U);
}

TEST_F(Pipeline, NumberOfThreadsChangesNothing) {
  write(test::TinyModel());
  GenerateOptions one = options();
  one.num_threads = 1;
  GenerateOptions three = options();
  three.num_threads = 3;
  run(one);
  const Latents first = load_latents(one.latents).value();
  run(three);
  EXPECT_EQ(report_.num_threads, 3);
  const Latents second = load_latents(three.latents).value();
  EXPECT_TRUE(std::ranges::equal(first.values.span(), second.values.span()));
}

TEST_F(Pipeline, PromptGuidanceAndNegativePromptMatter) {
  write(test::TinyModel());
  const video::Frames frames = run(options());
  GenerateOptions other = options();
  other.prompt = "a large blue circle";
  EXPECT_NE(run(other).rgb, frames.rgb);
  other = options();
  other.negative_prompt = "green";
  EXPECT_NE(run(other).rgb, frames.rgb);
  other = options();
  other.guidance = 1.0;
  EXPECT_NE(run(other).rgb, frames.rgb);
}

TEST_F(Pipeline, RoutesFollowDenseStepsAndLayers) {
  write(test::TinyModel());
  GenerateOptions mixed = options();
  mixed.steps = 3;
  mixed.dense_steps = 1;
  mixed.dense_layers = {2};
  mixed.topk = 1;
  run(mixed);
  for (size_t step = 0; step < 3; ++step) {
    for (size_t layer = 0; layer < 3; ++layer) {
      const LayerReport& did = report_.step_reports[step].layers[layer];
      const bool dense = step < 1 || layer == 2;
      EXPECT_EQ(did.route, dense ? "dense" : "vsa") << step << " " << layer;
      EXPECT_DOUBLE_EQ(did.kept_share, dense ? 1.0 : 0.25) << step << " " << layer;
    }
  }
}

TEST_F(Pipeline, W17_DenseIsVsaWithAllTiles) {
  write(test::TinyModel());
  GenerateOptions dense = options();
  dense.attention = Attention::kDense;
  const video::Frames frames = run(dense);
  EXPECT_THAT(report_.warnings, testing::ElementsAre(HasSubstr("adds gate * coarse")));
  GenerateOptions all = options();
  all.sparsity = 0.0;
  EXPECT_EQ(run(all).rgb, frames.rgb);
  EXPECT_NE(run(options()).rgb, frames.rgb);
}

TEST_F(Pipeline, R19_WithoutGatesItSaysSo) {
  write(test::TinyModel(1, /*gates=*/false));
  run(options());
  EXPECT_FALSE(report_.transformer.has_gates);
  EXPECT_THAT(report_.warnings, testing::ElementsAre(HasSubstr("no to_gate_compress")));
}

TEST_F(Pipeline, ReferenceBackendAgrees) {
  write(test::TinyModel());
  GenerateOptions reference = options();
  reference.backend = BackendId::kReference;
  run(reference);
  const Latents exact = load_latents(reference.latents).value();
  run(options());
  const Latents fast = load_latents(reference.latents).value();
  double difference = 0.0;
  double size = 0.0;
  for (int64_t i = 0; i < exact.values.size(); ++i) {
    difference += std::pow(exact.values.data()[i] - fast.values.data()[i], 2);
    size += std::pow(exact.values.data()[i], 2);
  }
  // f32 against f64 attention through 2 steps of 3 layers; a wrong tile would give 1e-2 and more.
  EXPECT_LT(std::sqrt(difference / size), 1e-4);
}

TEST_F(Pipeline, R20_LatentsDecodeToTheSameFrames) {
  write(test::TinyModel());
  const GenerateOptions run_options = options();
  const video::Frames frames = run(run_options);
  const Decoded decoded = decode({.latents = run_options.latents}).value();
  EXPECT_EQ(decoded.frames.rgb, frames.rgb);
  EXPECT_EQ(decoded.prompt, run_options.prompt);
  EXPECT_EQ(decoded.fps, 8.0);
  EXPECT_EQ(decoded.steps_done, 2);
  EXPECT_EQ(decoded.steps, 2);
}

TEST_F(Pipeline, R29_CancelStopsWithinALayerAndKeepsTheLatents) {
  write(test::TinyModel());
  GenerateOptions stopped = options();
  stopped.steps = 3;
  std::atomic<bool> cancel = false;
  int64_t layers_after = 0;
  // The second layer of step 1: 3 layers in each of 2 passes come before it.
  stopped.on_progress = [&](const Progress& progress) {
    if (progress.stage != Progress::Stage::kDenoise) return;
    if (cancel) ++layers_after;
    if (progress.done == 8) cancel = true;
  };
  stopped.cancel = &cancel;
  const Status status = fail(stopped);
  EXPECT_EQ(status.code(), StatusCode::kCancelled);
  EXPECT_THAT(status.message(), HasSubstr("step 1, layer 2"));
  EXPECT_THAT(status.message(), HasSubstr(stopped.latents.string()));
  EXPECT_EQ(layers_after, 0);
  EXPECT_EQ(report_.steps_done, 1);
  EXPECT_EQ(report_.step_reports.size(), 2U);
  const Decoded decoded = decode({.latents = stopped.latents}).value();
  EXPECT_EQ(decoded.steps_done, 1);
  EXPECT_EQ(decoded.steps, 3);
}

TEST_F(Pipeline, R29_CancelStopsTheTextEncoder) {
  write(test::TinyModel());
  GenerateOptions stopped = options();
  std::atomic<bool> cancel = false;
  stopped.on_progress = [&](const Progress&) { cancel = true; };
  stopped.cancel = &cancel;
  expect_refused(stopped, StatusCode::kCancelled, "[encode] cancelled before layer 1 of 2");
}

TEST_F(Pipeline, R27_ProgressCountsEveryLayer) {
  write(test::TinyModel());
  GenerateOptions watched = options();
  std::map<Progress::Stage, int64_t> calls;
  Progress last;
  watched.on_progress = [&](const Progress& progress) {
    EXPECT_EQ(progress.done,
              ++calls[progress.stage] * (progress.stage == Progress::Stage::kDecode ? 8 : 1));
    EXPECT_LE(progress.done, progress.total);
    last = progress;
  };
  run(watched);
  EXPECT_EQ(calls[Progress::Stage::kText], 2 * 2);
  EXPECT_EQ(calls[Progress::Stage::kDenoise], 2 * 2 * 3);
  EXPECT_EQ(last.done, last.total);
}

TEST_F(Pipeline, NonFiniteValuesStopTheRunAndNameTheLayer) {
  test::TinyModel model;
  // Numbers all of them, whose sums are none.
  for (float& x : model.transformer["blocks.1.ffn.net.2.weight"].values) x = 3e38F;
  write(model);
  const GenerateOptions run_options = options();
  const Status status = fail(run_options);
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_THAT(status.message(), HasSubstr("[generate] step 0, layer 1: expected finite values"));
  EXPECT_EQ(decode({.latents = run_options.latents}).value().steps_done, 0);
}

TEST_F(Pipeline, AWeightThatIsNoNumberIsNamed) {
  test::TinyModel model;
  model.transformer["blocks.1.ffn.net.2.bias"].values[3] = std::numeric_limits<float>::infinity();
  write(model);
  const Status status = fail(options());
  EXPECT_EQ(status.code(), StatusCode::kIoError);
  EXPECT_THAT(status.message(), HasSubstr("blocks.1.ffn.net.2.bias\": expected finite values, got "
                                          "infinity at element 3"));
}

TEST_F(Pipeline, NonFiniteOutputStopsTheRun) {
  test::TinyModel model;
  for (float& x : model.transformer["proj_out.weight"].values) x = 3e38F;
  write(model);
  EXPECT_THAT(fail(options()).message(), HasSubstr("step 0, output layer: expected finite"));
}

TEST_F(Pipeline, R04_AnySizeOfWholePatches) {
  write(test::TinyModel());
  GenerateOptions odd = options();
  odd.frames = 6;
  odd.size = {{20, 36}};
  const video::Frames frames = run(odd);
  EXPECT_EQ(frames.num_frames, 6);
  EXPECT_EQ(frames.height, 20);
  EXPECT_EQ(frames.width, 36);
  EXPECT_EQ(report_.num_tiles, 1 * 2 * 3);  // grid 3x5x9, all tiles partial
}

TEST_F(Pipeline, AModelFolderOfAnyBytesKeepsItsLatents) {
  GenerateOptions odd = options();
  odd.model = folder_ / "mod\xFF-el";
  test::TinyModel().write(odd.model);
  run(odd);
  EXPECT_EQ(load_latents(odd.latents).value().model, "");
}

TEST_F(Pipeline, WeightsInF16Work) {
  test::TinyModel model;
  model.as_f16 = true;
  write(model);
  run(options());
  EXPECT_EQ(report_.transformer.dtype, "F16");
}

}  // namespace
}  // namespace vsa::runtime
