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
  EXPECT_EQ(read.shift, 8.0);
  EXPECT_EQ(read.max_sequence_length, 32);
  EXPECT_THAT(read.ignored,
              testing::ElementsAre("scheduler/scheduler_config.json: stochastic_sampling"));
}

TEST_F(Folder, OtherComponentsAreRefusedByName) {
  const std::tuple<const char*, const char*> cases[] = {{"vae", "AutoencoderKLWan"},
                                                        {"scheduler", "UniPCMultistepScheduler"},
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
              HasSubstr("expected a JSON object, got text that is not JSON"));
  std::filesystem::remove(folder_ / "model_index.json");
  EXPECT_EQ(ModelFolder::open(folder_.path()).status().code(), StatusCode::kIoError);
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
