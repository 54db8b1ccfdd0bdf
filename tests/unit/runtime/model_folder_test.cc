// Model folders: what is refused, and by which name.
#include "runtime/model_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/run_plan.h"
#include "tests/runtime_support/tiny_model.h"
#include "tests/unit/runtime/io/files.h"

namespace vsa::runtime {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class Folder : public testing::Test {
 protected:
  void expect_refused(const test::TinyModel& model, StatusCode code, const std::string& text) {
    model.write(folder_.path());
    const Status status = ModelFolder::open(folder_.path()).status();
    EXPECT_EQ(status.code(), code) << status.message();
    EXPECT_THAT(status.message(), HasSubstr(text));
  }
  test::ScratchDirectory folder_;
};

TEST_F(Folder, ReadsDefaults) {
  test::TinyModel model;
  model.scheduler["stochastic_sampling"] = false;
  model.write(folder_.path());
  const ModelFolder read = ModelFolder::open(folder_.path()).value();
  EXPECT_EQ(read.defaults.frames, 8);
  EXPECT_EQ(read.defaults.sparsity, 0.5);
  EXPECT_EQ(read.defaults.tile, (TileShape{4, 4, 4}));
  EXPECT_EQ(read.fps, 8.0);
  EXPECT_EQ(read.scheduler.shift, 8.0);
  EXPECT_EQ(read.scheduler.kind, sampler::SchedulerKind::kEulerPlain);
  EXPECT_EQ(read.max_sequence_length, 32);
  EXPECT_THAT(read.ignored, testing::IsEmpty());
}

TEST_F(Folder, TheSamplerIsThatOfItsConfigAndFastWansThatOfItsPipeline) {
  test::TinyModel model;
  model.index["scheduler"] = {"diffusers", "UniPCMultistepScheduler"};
  model.index["vsa"].erase("steps");
  model.index["vsa"].erase("guidance");
  model.scheduler = {{"_class_name", "UniPCMultistepScheduler"},
                     {"prediction_type", "flow_prediction"},
                     {"use_flow_sigmas", true},
                     {"flow_shift", 3.0}};
  model.write(folder_.path());
  const ModelFolder wan = ModelFolder::open(folder_.path()).value();
  EXPECT_EQ(wan.scheduler.kind, sampler::SchedulerKind::kUniPc);
  EXPECT_EQ(wan.scheduler.shift, 3.0);
  EXPECT_FALSE(wan.defaults.steps);
  model.index["_class_name"] = "WanDMDPipeline";
  model.write(folder_.path());
  const ModelFolder fast = ModelFolder::open(folder_.path()).value();
  EXPECT_EQ(fast.scheduler.kind, sampler::SchedulerKind::kFewStep);
  EXPECT_EQ(fast.scheduler.shift, 8.0);
  EXPECT_EQ(fast.scheduler.timesteps, (std::vector<int64_t>{1000, 757, 522}));
  EXPECT_EQ(fast.defaults.steps, 3);
  EXPECT_EQ(fast.defaults.guidance, 1.0);
}

TEST_F(Folder, OtherComponentsAreRefusedByName) {
  const std::tuple<const char*, const char*> cases[] = {{"vae", "AutoencoderKL"},
                                                        {"scheduler", "DDIMScheduler"},
                                                        {"transformer", "FluxTransformer2DModel"},
                                                        {"text_encoder", "CLIPTextModel"}};
  for (const auto& [component, found] : cases) {
    test::TinyModel model;
    model.index[component] = {"diffusers", found};
    expect_refused(model, StatusCode::kUnsupported,
                   std::string("model_index.json: ") + component + ": expected");
    expect_refused(model, StatusCode::kUnsupported, found);
  }
}

TEST_F(Folder, MalformedFilesAreNamed) {
  test::TinyModel model;
  model.index["vae"] = "none";
  expect_refused(model, StatusCode::kIoError, "vae: expected [library, class]");
  model = test::TinyModel();
  model.index["vsa"]["frames"] = -1;
  expect_refused(model, StatusCode::kIoError, "model_index.json: vsa: frames: expected");
  model = test::TinyModel();
  model.scheduler["shift"] = "big";
  expect_refused(model, StatusCode::kIoError, "scheduler_config.json: shift");
  model = test::TinyModel();
  model.scheduler["use_dynamic_shifting"] = true;
  expect_refused(model, StatusCode::kUnsupported, "use_dynamic_shifting");
  model = test::TinyModel();
  model.transformer_config["text_dim"] = 25;
  expect_refused(model, StatusCode::kIoError, "text_dim: expected 24");
  model = test::TinyModel();
  model.index["vsa"] = 3;
  expect_refused(model, StatusCode::kIoError, "vsa: expected a JSON object");
}

TEST_F(Folder, MissingAndBrokenJson) {
  test::TinyModel().write(folder_.path());
  test::write_text(folder_ / "model_index.json", "{\"a\": ");
  EXPECT_THAT(ModelFolder::open(folder_.path()).status().message(),
              HasSubstr("expected a JSON object, got JSON with a fault at byte"));
  std::filesystem::remove(folder_ / "model_index.json");
  EXPECT_EQ(ModelFolder::open(folder_.path()).status().code(), StatusCode::kIoError);
}

TEST_F(Folder, P25_VariantsOfOnePartAndOfBoth) {
  test::TinyModel().write(folder_.path());
  const auto transformer = folder_ / "transformer";
  std::filesystem::copy_file(transformer / "diffusion_pytorch_model.safetensors",
                             transformer / "diffusion_pytorch_model.ema.safetensors");
  test::write_text(transformer / "._diffusion_pytorch_model.safetensors", "macOS");
  test::write_text(folder_ / "tokenizer" / "._spiece.model", "macOS");
  const ModelFolder plain = ModelFolder::open(folder_.path()).value();
  EXPECT_EQ(plain.open_transformer().value().paths().front().filename(),
            "diffusion_pytorch_model.safetensors");
  EXPECT_EQ(plain.warnings.size(), 0U);
  const ModelFolder ema = ModelFolder::open(folder_.path(), {.variant = "ema"}).value();
  EXPECT_EQ(ema.open_transformer().value().paths().front().filename(),
            "diffusion_pytorch_model.ema.safetensors");
  EXPECT_EQ(ema.open_text_encoder().value().paths().front().filename(), "model.safetensors");
  ASSERT_EQ(ema.warnings.size(), 1U);
  EXPECT_THAT(ema.warnings[0], HasSubstr("text_encoder has no weights of the variant ema"));
  const Status none = ModelFolder::open(folder_.path(), {.variant = "fp16"}).status();
  EXPECT_EQ(none.code(), StatusCode::kIoError);
  EXPECT_THAT(none.message(), HasSubstr("expected weights of the variant fp16, got none"));
}

TEST_F(Folder, P36_SaysWhatItWasTrainedOn) {
  test::TinyModel model;
  model.index["vsa"]["trained_words"] = {"a", "red", "ring"};
  model.index["vsa"]["trained_video"] = {8, 32, 32};
  model.write(folder_.path());
  const ModelFolder folder = ModelFolder::open(folder_.path()).value();
  EXPECT_EQ(folder.trained_on.words, (std::set<std::string>{"a", "red", "ring"}));
  using Videos = std::vector<std::vector<int64_t>>;
  EXPECT_EQ(folder.trained_on.videos, (Videos{{8, 32, 32}}));
  EXPECT_TRUE(folder.ignored.empty());
  model.index["vsa"].erase("trained_video");
  model.index["vsa"]["trained_videos"] = {{8, 32, 32}, {16, 32, 64}};
  model.write(folder_.path());
  const ModelFolder several = ModelFolder::open(folder_.path()).value();
  EXPECT_EQ(several.trained_on.videos, (Videos{{8, 32, 32}, {16, 32, 64}}));
  EXPECT_TRUE(several.ignored.empty());
  for (const nlohmann::json& wrong :
       {nlohmann::json(8), nlohmann::json({8, 32, 32}), nlohmann::json::parse("[[8, 32]]"),
        nlohmann::json::parse("[[8, 32, 32], [8, 32, 0]]")}) {
    model.index["vsa"]["trained_videos"] = wrong;
    model.write(folder_.path());
    EXPECT_THAT(ModelFolder::open(folder_.path()).status().message(),
                HasSubstr("vsa: trained_videos: expected lists of 3 integers of at least 1"));
  }
  model.index["vsa"].erase("trained_videos");
  for (const nlohmann::json& wrong : {nlohmann::json("red"), nlohmann::json({1, 2})}) {
    model.index["vsa"]["trained_words"] = wrong;
    model.write(folder_.path());
    EXPECT_THAT(ModelFolder::open(folder_.path()).status().message(),
                HasSubstr("vsa: trained_words: expected a list of strings"));
  }
}

TEST(TrainedWithMetadata, ReadsTileAndSparsity) {
  const TrainedWith trained =
      trained_with({{"vsa.tile", "4,8,4"}, {"vsa.sparsity", "0.75"}}).value();
  EXPECT_EQ(trained.tile, (TileShape{4, 8, 4}));
  EXPECT_EQ(trained.sparsity, 0.75);
  EXPECT_FALSE(trained_with({}).value().tile.has_value());
  for (const char* bad : {"4,4", "4,4,4,4", "4,4,", "a,b,c", "", "4, 4, 4"}) {
    EXPECT_EQ(trained_with({{"vsa.tile", bad}}).status().code(), StatusCode::kIoError) << bad;
  }
  EXPECT_EQ(trained_with({{"vsa.sparsity", "0.75x"}}).status().code(), StatusCode::kIoError);
}

}  // namespace
}  // namespace vsa::runtime
