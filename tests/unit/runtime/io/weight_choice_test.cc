// Which of several files in a folder are the weights.
#include "runtime/io/weight_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/unit/runtime/io/files.h"

namespace vsa::io {
namespace {

using testing::HasSubstr;

struct WeightChoice : testing::Test {
  test::ScratchDirectory folder;

  void files(std::initializer_list<const char*> names) const {
    for (const char* name : names) test::write_text(folder / name, "x");
  }
  /// The name of the chosen file, or the message.
  std::string chosen(const std::string& variant = "") const {
    const auto path = choose_weights(folder.path(), variant);
    return path.ok() ? path->filename().string() : path.status().message();
  }
};

TEST_F(WeightChoice, P25_HiddenFilesAndLeftoversArePassedOver) {
  files({"diffusion_pytorch_model.safetensors", "._diffusion_pytorch_model.safetensors",
         ".model.safetensors", "diffusion_pytorch_model.safetensors~", ".DS_Store", "Thumbs.db",
         "desktop.ini", "diffusion_pytorch_model.safetensors.incomplete", "model.safetensors.part",
         "config.json"});
  std::filesystem::create_directory(folder / "old.safetensors");
  EXPECT_EQ(chosen(), "diffusion_pytorch_model.safetensors");
}

TEST_F(WeightChoice, P25_HiddenIndexesArePassedOver) {
  files({"model.safetensors.index.json", "._model.safetensors.index.json",
         "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
         "._model-00001-of-00002.safetensors"});
  EXPECT_EQ(chosen(), "model.safetensors.index.json");
}

TEST_F(WeightChoice, P25_StandardNamesArePreferred) {
  files({"backup.safetensors", "diffusion_pytorch_model.safetensors", "lora.safetensors"});
  EXPECT_EQ(chosen(), "diffusion_pytorch_model.safetensors");
  std::filesystem::remove(folder / "diffusion_pytorch_model.safetensors");
  files({"model.safetensors"});
  EXPECT_EQ(chosen(), "model.safetensors");
  files({"model.safetensors.index.json"});
  EXPECT_EQ(chosen(), "model.safetensors.index.json");
}

TEST_F(WeightChoice, P25_VariantsAreChosenByName) {
  files({"model.safetensors", "model.fp16.safetensors", "model.ema.safetensors",
         "model.safetensors.index.bf16.json", "model.bf16-00001-of-00001.safetensors"});
  EXPECT_EQ(chosen(), "model.safetensors");
  EXPECT_EQ(chosen("fp16"), "model.fp16.safetensors");
  EXPECT_EQ(chosen("ema"), "model.ema.safetensors");
  EXPECT_EQ(chosen("bf16"), "model.safetensors.index.bf16.json");
  EXPECT_THAT(chosen("fp8"), HasSubstr("expected weights of the variant fp8, got "));
  EXPECT_THAT(chosen("fp8"), HasSubstr("model.fp16.safetensors"));
}

TEST_F(WeightChoice, P25_AnOnlyVariantIsTakenAndSeveralAreNamed) {
  files({"model.fp16.safetensors"});
  EXPECT_EQ(chosen(), "model.fp16.safetensors");
  files({"model.ema.safetensors"});
  EXPECT_THAT(chosen(), HasSubstr("got model.ema.safetensors, model.fp16.safetensors; choose a "
                                  "variant: ema, fp16"));
}

TEST_F(WeightChoice, P25_AnAmbiguityIsSaidWithTheNames) {
  EXPECT_THAT(chosen(), HasSubstr("expected weights (NAME.safetensors"));
  files({"a.safetensors"});
  EXPECT_EQ(chosen(), "a.safetensors");
  files({"Wan2.1-b.safetensors"});
  EXPECT_THAT(chosen(),
              HasSubstr("got Wan2.1-b.safetensors, a.safetensors; move all but one away"));
}

}  // namespace
}  // namespace vsa::io
