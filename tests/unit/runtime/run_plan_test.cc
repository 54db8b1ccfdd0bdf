// What is found before a run: options that do not fit, places without room, what deserves a
// warning.
#include "runtime/run_plan.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "runtime/memory.h"
#include "tests/unit/runtime/io/disk_limit.h"
#include "tests/unit/runtime/pipeline_fixture.h"

namespace vsa::runtime {
namespace {

using testing::HasSubstr;

TEST_F(Pipeline, R02_R03_ExtentsThatDoNotSuitThePatch) {
  write(test::TinyModel());
  GenerateOptions bad = options();
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  for (const auto& [frames, nearest] :
       {std::pair<int64_t, int>{15, 16}, {0, 2}, {-3, 2}, {1, 2}, {999, 128}, {kMost, 128}}) {
    bad.frames = frames;
    expect_refused(bad, StatusCode::kInvalidArgument,
                   "[generate] frames: expected a multiple of 2 from 2 to 128, got " +
                       std::to_string(frames) + ": the nearest is " + std::to_string(nearest));
  }
  bad = options();
  bad.size = {{33, 32}};
  expect_refused(bad, StatusCode::kInvalidArgument,
                 "[generate] size: expected a width that is a multiple of 4 from 4 to 256 and a "
                 "height that is one, too, got 32x33: the nearest is 32x32");
  bad.size = {{34, kMost}};
  expect_refused(bad, StatusCode::kInvalidArgument, "the nearest is 256x36");
}

TEST_F(Pipeline, BadOptionsAreNamed) {
  write(test::TinyModel());
  const auto refused = [&](const auto& spoil, const std::string& text,
                           StatusCode code = StatusCode::kInvalidArgument) {
    GenerateOptions bad = options();
    spoil(bad);
    expect_refused(bad, code, text);
  };
  refused([](auto& o) { o.steps = 0; }, "[sampler] steps: expected 1 to 1000, got 0");
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
  refused([](auto& o) { o.backend = BackendId::kHip; }, "[generate] backend: hip is not available",
          StatusCode::kUnsupported);
  refused([](auto& o) { o.model = "/nowhere"; }, "/nowhere", StatusCode::kIoError);
}

TEST_F(Pipeline, TilesOfACurveAndTheBestCuboid) {
  test::TinyModel model;
  model.transformer_metadata.erase("vsa.tile");
  model.index["vsa"].erase("tile");
  write(model);
  GenerateOptions ordered = options();
  ordered.order = TokenOrder::kGilbertFrames;
  run(ordered);
  EXPECT_EQ(report_.order, "gilbert-frames");
  EXPECT_EQ(report_.tile_shape, (std::vector<int64_t>{1, 1, 64}));
  const int64_t tokens = report_.grid_tokens[0] * report_.grid_tokens[1] * report_.grid_tokens[2];
  EXPECT_EQ(report_.num_tiles, (tokens + 63) / 64);

  GenerateOptions best = options();
  best.best_tile_of = 64;
  run(best);
  EXPECT_EQ(report_.order, "raster");
  const TileShape tile =
      best_tile({report_.grid_tokens[0], report_.grid_tokens[1], report_.grid_tokens[2]}, 64)
          .value();
  EXPECT_EQ(report_.tile_shape, (std::vector<int64_t>{tile.f, tile.h, tile.w}));
}

TEST_F(Pipeline, TilesThatDoNotFitTheOrderOrTheTrainedModel) {
  test::TinyModel model;
  model.transformer_metadata.erase("vsa.tile");
  model.index["vsa"].erase("tile");
  write(model);
  GenerateOptions bad = options();
  bad.order = TokenOrder::kGilbert;
  bad.tile = {3, 5, 4};
  expect_refused(bad, StatusCode::kInvalidArgument, "tile_shape: expected 64 or 128 tokens a tile");
  bad.tile.reset();
  bad.best_tile_of = 64;
  expect_refused(bad, StatusCode::kInvalidArgument, "tile: expected no best tile beside a curve");
  bad.order = TokenOrder::kRaster;
  bad.tile = {4, 4, 4};
  expect_refused(bad, StatusCode::kInvalidArgument,
                 "tile: expected no best tile beside given edges");
  bad.tile.reset();
  bad.best_tile_of = 0;
  expect_refused(bad, StatusCode::kInvalidArgument, "[best_tile] max_tokens: expected 1 to 256");

  model.index["vsa"]["tile"] = {2, 4, 4};
  write(model);
  bad.best_tile_of = 64;
  expect_refused(bad, StatusCode::kInvalidArgument,
                 "[generate] tile: expected 2x4x4, which the model was trained with, or other "
                 "edges, got auto");
  GenerateOptions ordered = options();
  ordered.order = TokenOrder::kGilbert;
  run(ordered);
  EXPECT_THAT(report_.warnings,
              testing::Contains("order: the model was trained with tiles of 2x4x4, this run uses "
                                "the order gilbert"));
}

TEST_F(Pipeline, R21_UnwritableLatentsAreFoundBeforeTheRun) {
  write(test::TinyModel());
  GenerateOptions bad = options();
  bad.latents = bad.model / "model_index.json" / "latents.safetensors";  // below a file
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
  EXPECT_THAT(status.message(), HasSubstr("memory: expected at least 2.00 GiB available for the "
                                          "transformer, got 0."));
}

TEST_F(Pipeline, R31_TheTextEncoderCountsWithoutItsTable) {
  test::TinyModel model;
  int64_t parameters = 0;
  int64_t largest = 0;
  for (const auto& [name, tensor] : model.text_encoder) {
    if (name == "shared.weight") continue;
    parameters += std::ssize(tensor.values);
    largest = std::max<int64_t>(largest, std::ssize(tensor.values));
  }
  const auto needed = [&] {
    write(model);
    return text_memory_needed_bytes(
        io::Checkpoint::open(folder_ / "model" / "text_encoder").value());
  };
  EXPECT_EQ(needed(), 4 * parameters);
  model.as_f16 = true;  // stays f16, but for the weight that is multiplied with
  EXPECT_EQ(needed(), 2 * parameters + 4 * largest);
}

TEST_F(Pipeline, APromptThatIsTooLongIsAWarning) {
  write(test::TinyModel());
  GenerateOptions long_prompt = options();
  run(long_prompt);
  EXPECT_THAT(report_.warnings, testing::IsEmpty());
  for (int i = 0; i < 1000; ++i) long_prompt.prompt += " star";
  run(long_prompt);
  EXPECT_THAT(report_.warnings, testing::ElementsAre(testing::StartsWith("prompt: its last ")));
  long_prompt.negative_prompt = long_prompt.prompt;
  run(long_prompt);
  EXPECT_THAT(report_.warnings, testing::SizeIs(2));
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

}  // namespace
}  // namespace vsa::runtime
