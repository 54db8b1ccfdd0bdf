// The pipeline on a random model: same video for a seed, routes, interruption, bad options.
#include "runtime/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "runtime/latents.h"
#include "tests/runtime_support/tiny_model.h"
#include "tests/unit/runtime/io/disk_limit.h"
#include "tests/unit/runtime/io/files.h"

namespace vsa::runtime {
namespace {

using testing::HasSubstr;

class Pipeline : public testing::Test {
 protected:
  GenerateOptions options(uint64_t seed = 7) const {
    GenerateOptions options;
    options.model = folder_ / "model";
    options.prompt = "a small red star";
    options.seed = static_cast<int64_t>(seed);
    options.latents = folder_ / "latents.safetensors";
    return options;
  }
  void write(const test::TinyModel& model) const { model.write(folder_ / "model"); }

  /// Runs and returns the frames; the report is in report_.
  video::Frames run(const GenerateOptions& options) { return generate(options, report_).value(); }
  Status fail(const GenerateOptions& options) { return generate(options, report_).status(); }

  void expect_refused(const GenerateOptions& options, StatusCode code, const std::string& text) {
    const Status status = fail(options);
    EXPECT_EQ(status.code(), code) << status.message();
    EXPECT_THAT(status.message(), HasSubstr(text));
    EXPECT_FALSE(std::filesystem::exists(options.latents));
  }

  test::ScratchDirectory folder_;
  GenerateReport report_;
};

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

TEST_F(Pipeline, R24_ARandomSeedIsRecordedAndRepeats) {
  write(test::TinyModel());
  GenerateOptions random = options();
  random.seed = -1;
  const video::Frames frames = run(random);
  ASSERT_GE(report_.seed, 0);
  EXPECT_EQ(decode(random.latents).value().seed, report_.seed);
  random.seed = report_.seed;
  EXPECT_EQ(run(random).rgb, frames.rgb);
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

TEST_F(Pipeline, DenseIsVsaWithAllTiles) {
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
  const Decoded decoded = decode(run_options.latents).value();
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
  const Decoded decoded = decode(stopped.latents).value();
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
  model.transformer["blocks.1.ffn.net.2.bias"].values[3] = std::numeric_limits<float>::infinity();
  write(model);
  const GenerateOptions run_options = options();
  const Status status = fail(run_options);
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_THAT(status.message(), HasSubstr("[generate] step 0, layer 1: expected finite values"));
  EXPECT_EQ(decode(run_options.latents).value().steps_done, 0);
}

TEST_F(Pipeline, NonFiniteOutputStopsTheRun) {
  test::TinyModel model;
  model.transformer["proj_out.bias"].values[0] = std::nanf("");
  write(model);
  EXPECT_THAT(fail(options()).message(), HasSubstr("step 0, output layer: expected finite"));
}

TEST_F(Pipeline, R02_R03_ExtentsThatDoNotSuitThePatch) {
  write(test::TinyModel());
  GenerateOptions bad = options();
  for (const auto& [frames, nearest] : {std::pair{15, 16}, {0, 2}, {-3, 2}, {1, 2}, {999, 128}}) {
    bad.frames = frames;
    expect_refused(bad, StatusCode::kInvalidArgument,
                   "[generate] frames: expected a multiple of 2 from 2 to 128, got " +
                       std::to_string(frames) + ": the nearest is " + std::to_string(nearest));
  }
  bad = options();
  bad.size = {{33, 32}};
  expect_refused(bad, StatusCode::kInvalidArgument, "height: expected a multiple of 4");
  bad.size = {{32, std::numeric_limits<int64_t>::max() - 8}};
  expect_refused(bad, StatusCode::kInvalidArgument, "the nearest is 256");
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

TEST_F(Pipeline, BadOptionsAreNamed) {
  write(test::TinyModel());
  const auto refused = [&](const auto& spoil, const std::string& text,
                           StatusCode code = StatusCode::kInvalidArgument) {
    GenerateOptions bad = options();
    spoil(bad);
    expect_refused(bad, code, text);
  };
  refused([](auto& o) { o.steps = 0; }, "[generate] steps: expected 1 to 1000, got 0");
  refused([](auto& o) { o.guidance = std::nan(""); }, "[generate] guidance:");
  refused([](auto& o) { o.guidance = -1.0; }, "[generate] guidance:");
  refused([](auto& o) { o.seed = -2; }, "[generate] seed:");
  refused([](auto& o) { o.sparsity = std::nan(""); }, "[generate] sparsity: expected 0 to 1");
  refused([](auto& o) { o.sparsity = 1.01; }, "[generate] sparsity: expected 0 to 1");
  refused([](auto& o) { o.topk = 0; }, "[generate] topk: expected 1 to 4");
  refused([](auto& o) { o.topk = 5; }, "[generate] topk: expected 1 to 4");
  refused([](auto& o) { o.topk = 2, o.sparsity = 0.5; }, "[generate] topk: expected none beside");
  refused([](auto& o) { o.dense_layers = {0, 3}; }, "dense_layers: expected 0 to 2, got 3");
  refused([](auto& o) { o.dense_layers = {-1}; }, "dense_layers: expected 0 to 2, got -1");
  refused([](auto& o) { o.dense_steps = 3; }, "dense_steps: expected 0 to 2, got 3");
  refused([](auto& o) { o.tile = {16, 16, 16}; }, "tile");
  refused([](auto& o) { o.num_threads = -1; }, "[generate] num_threads:");
  refused([](auto& o) { o.num_threads = 1 << 30; }, "[generate] num_threads: expected 0 to 1024");
  refused([](auto& o) { o.prompt = "caf\xE9"; }, "[tokenize] prompt: expected UTF-8");
  refused([](auto& o) { o.negative_prompt = "\xFF"; }, "[tokenize] prompt: expected UTF-8");
  refused([](auto& o) { o.backend = BackendId::kCuda; },
          "[generate] backend: cuda is not available", StatusCode::kUnsupported);
  refused([](auto& o) { o.model = "/nowhere"; }, "/nowhere", StatusCode::kIoError);
}

TEST_F(Pipeline, R21_UnwritableLatentsAreFoundBeforeTheRun) {
  write(test::TinyModel());
  GenerateOptions bad = options();
  bad.latents = folder_ / "no" / "such" / "latents.safetensors";
  bad.on_progress = [](const Progress&) { ADD_FAILURE() << "it started"; };
  expect_refused(bad, StatusCode::kIoError, "latents.safetensors");
  bad.latents = options().latents;  // 8 frames of 32x32 pixels in f32 are 98304 bytes
  {
    const test::FileSizeLimit limit(98303);
    expect_refused(bad, StatusCode::kIoError, "expected to find room for 98304 bytes");
  }
  const test::FileSizeLimit limit(98304 + 4096);
  throw_if_error(generate(options(), report_).status());
}

TEST_F(Pipeline, APromptThatIsTooLongIsAWarning) {
  write(test::TinyModel());
  GenerateOptions long_prompt = options();
  run(long_prompt);
  EXPECT_THAT(report_.warnings, testing::IsEmpty());
  for (int i = 0; i < 1000; ++i) long_prompt.prompt += " star";
  run(long_prompt);
  EXPECT_THAT(report_.warnings, testing::ElementsAre(testing::StartsWith("prompt: it has ")));
  long_prompt.negative_prompt = long_prompt.prompt;
  run(long_prompt);
  EXPECT_THAT(report_.warnings, testing::SizeIs(2));
}

TEST_F(Pipeline, R31_ARunThatDoesNotFitIsRefusedAtTheStart) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer needs the address space";
#endif
  test::TinyModel model;
  model.transformer_config["rope_max_seq_len"] = 1024;
  write(model);
  GenerateOptions large = options();
  large.frames = 2 * 1024;  // 1024x32x32 = 2^20 tokens
  large.size = {{128, 128}};
  large.on_progress = [](const Progress&) { ADD_FAILURE() << "it started"; };
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  std::ifstream statm("/proc/self/statm");
  int64_t pages = 0;
  statm >> pages;
  rlimit tight = before;
  tight.rlim_cur = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE) + (512 << 20));
  ASSERT_EQ(setrlimit(RLIMIT_AS, &tight), 0);
  const Status status = fail(large);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_EQ(status.code(), StatusCode::kOutOfMemory);
  // 2^20 tokens of 6 * 32 + 2 * 16 floats, 3 latents of 96 floats a token, and the weights.
  EXPECT_THAT(status.message(), HasSubstr("memory: expected at least 2.00 GiB available, got 0."));
}

TEST_F(Pipeline, AModelFolderOfAnyBytesKeepsItsLatents) {
  GenerateOptions odd = options();
  odd.model = folder_ / "mod\xFF-el";
  test::TinyModel().write(odd.model);
  run(odd);
  EXPECT_EQ(load_latents(odd.latents).value().model, "");
}

TEST_F(Pipeline, T44_AnotherTileThanTrainedIsAWarning) {
  write(test::TinyModel());
  GenerateOptions other = options();
  other.tile = {2, 4, 4};
  run(other);
  EXPECT_EQ(report_.num_tiles, 8);
  EXPECT_THAT(report_.warnings,
              testing::ElementsAre(HasSubstr("trained with 4x4x4, this run uses 2x4x4")));
}

TEST_F(Pipeline, UnknownAttentionIsAnError) {
  EXPECT_EQ(attention_from_name("vsa").value(), Attention::kVsa);
  EXPECT_EQ(attention_from_name("dense").value(), Attention::kDense);
  EXPECT_EQ(attention_from_name("flash").status().message(),
            "[generate] attention: expected vsa or dense, got flash");
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
