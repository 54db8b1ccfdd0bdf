// Parts of a model in its folder and elsewhere, and models of other kinds, refused by name.
#include "runtime/model_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/dit/weights.h"
#include "runtime/model_folder.h"
#include "runtime/text/umt5_weights.h"
#include "tests/runtime_support/rename.h"
#include "tests/runtime_support/tiny_model.h"
#include "tests/unit/runtime/io/files.h"

namespace vsa::runtime {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class Parts : public testing::Test {
 protected:
  Parts() { model_.write(root()); }

  fs::path root() const { return folder_ / "model"; }
  Status fault(const PartPaths& parts = {}) const {
    return ModelFolder::open(root(), {.variant = "", .parts = parts}).status();
  }
  /// Opens the model, and finds all tensors of the transformer.
  dit::LoadReport load(const PartPaths& parts) const {
    const ModelFolder model = ModelFolder::open(root(), {.variant = "", .parts = parts}).value();
    const io::Checkpoint weights = model.open_transformer().value();
    dit::LoadReport report;
    EXPECT_TRUE(dit::find_weights(model.transformer, weights, report).ok());
    return report;
  }
  void refuse_index(const std::string& key, const nlohmann::json& value, const std::string& text) {
    test::TinyModel other;
    other.index[key] = value;
    other.write(root());
    EXPECT_EQ(fault().code(), StatusCode::kUnsupported) << fault().message();
    EXPECT_THAT(fault().message(), AllOf(HasSubstr(key), HasSubstr(text)));
  }

  test::ScratchDirectory folder_;
  test::TinyModel model_;
};

TEST_F(Parts, ATransformerOfAnotherFolderIsTaken) {
  test::TinyModel ungated(2, /*gates=*/false);
  ungated.write(folder_ / "other");
  EXPECT_TRUE(load({}).has_gates);
  // A model's folder, the folder of its transformer, and a file in it.
  const fs::path transformer = folder_ / "other" / "transformer";
  for (const fs::path& part :
       {folder_ / "other", transformer, transformer / "diffusion_pytorch_model.safetensors"}) {
    EXPECT_FALSE(load({.transformer = part, .vae = {}, .text_encoder = {}}).has_gates) << part;
  }
}

TEST_F(Parts, SingleFilesHaveTheirConfigurationInTheirShapes) {
  for (const char* prefix : {"model.diffusion_model.", "diffusion_model.", ""}) {
    for (const bool wan : {true, false}) {
      test::TinyTensors tensors;
      for (const auto& [name, tensor] :
           wan ? test::with_wan_names(model_.transformer) : model_.transformer) {
        tensors[prefix + name] = tensor;
      }
      const fs::path file = folder_ / "wan_t2v.safetensors";
      test::write_tensors(file, tensors, /*as_f16=*/true);
      const dit::LoadReport report = load({.transformer = file, .vae = {}, .text_encoder = {}});
      EXPECT_EQ(report.naming, wan ? "wan" : "diffusers");
      EXPECT_EQ(report.summary.loaded, std::ssize(model_.transformer));
      EXPECT_TRUE(report.summary.unused.empty());
    }
  }
}

TEST_F(Parts, ATextEncoderUnderWansNamesIsTheSame) {
  const ModelFolder own = ModelFolder::open(root()).value();
  const fs::path file = folder_ / "umt5.safetensors";
  test::write_tensors(file, test::with_wan_t5_names(model_.text_encoder));
  const ModelFolder model =
      ModelFolder::open(
          root(), {.variant = "", .parts = {.transformer = {}, .vae = {}, .text_encoder = file}})
          .value();
  EXPECT_EQ(model.text_encoder.num_layers, own.text_encoder.num_layers);
  EXPECT_EQ(model.text_encoder.d_kv, own.text_encoder.d_kv);
  EXPECT_EQ(model.text_encoder.d_ff, own.text_encoder.d_ff);
  const io::Checkpoint theirs = model.open_text_encoder().value();
  const io::Checkpoint ours = own.open_text_encoder().value();
  nn::LoadSummary summary;
  const auto read = text::find_umt5_weights(model.text_encoder, theirs, summary).value();
  const auto want = text::find_umt5_weights(own.text_encoder, ours, summary).value();
  const auto same = [](const nn::Weight& a, const nn::Weight& b) {
    return std::ranges::equal(a.bytes, b.bytes);
  };
  EXPECT_TRUE(same(read.layers[1].gelu_in.weight, want.layers[1].gelu_in.weight));
  EXPECT_TRUE(same(read.layers[1].linear_in.weight, want.layers[1].linear_in.weight));
  EXPECT_TRUE(same(read.layers[0].relative_bias, want.layers[0].relative_bias));
  EXPECT_TRUE(same(read.final_norm, want.final_norm));
}

TEST_F(Parts, WansOwnRepositoryIsOpened) {
  const fs::path repository = folder_ / "Wan2.1-T2V-tiny";
  fs::create_directories(repository / "google" / "umt5-xxl");
  test::write_text(repository / "config.json",
                   R"({"_class_name": "WanModel", "model_type": "t2v", "dim": 32, "num_heads": 2,
                       "ffn_dim": 48, "freq_dim": 16, "in_dim": 16, "out_dim": 16, "num_layers": 3,
                       "text_len": 512, "eps": 1e-6, "patch_size": [2, 4, 4], "text_dim": 24})");
  test::write_tensors(repository / "diffusion_pytorch_model.safetensors",
                      test::with_wan_names(model_.transformer));
  fs::copy_file(root() / "tokenizer" / "spiece.model",
                repository / "google" / "umt5-xxl" / "spiece.model");
  const auto fault = [&] { return ModelFolder::open(repository).status(); };
  EXPECT_THAT(fault().message(), HasSubstr("text_encoder: expected"));

  test::write_text(repository / "models_t5_umt5-xxl-enc-bf16.pth", "PK");
  EXPECT_EQ(fault().code(), StatusCode::kUnsupported);
  EXPECT_THAT(fault().message(),
              AllOf(HasSubstr("PyTorch checkpoint, which is a pickle; convert it to safetensors"),
                    HasSubstr("models_t5_umt5-xxl-enc-bf16.safetensors")));
  test::write_tensors(repository / "models_t5_umt5-xxl-enc-bf16.safetensors",
                      test::with_wan_t5_names(model_.text_encoder));
  test::write_text(repository / "Wan2.1_VAE.pth", "PK");
  EXPECT_THAT(fault().message(), HasSubstr("Wan2.1_VAE.safetensors"));
  test::write_tensors(repository / "Wan2.1_VAE.safetensors", {{"conv1.weight", {{1}, {1}}}});

  const ModelFolder model = ModelFolder::open(repository).value();
  EXPECT_TRUE(model.vae.has_value());
  EXPECT_EQ(model.transformer.width(), 32);
  EXPECT_EQ(model.transformer.num_heads, 2);
  EXPECT_EQ(model.scheduler.shift, 5.0);
  EXPECT_EQ(model.scheduler.kind, sampler::SchedulerKind::kUniPcWan);
  EXPECT_EQ(model.defaults.steps, 50);
  EXPECT_EQ(model.tokenizer_at, repository / "google" / "umt5-xxl" / "spiece.model");
  EXPECT_TRUE(model.open_tokenizer().ok());
}

TEST_F(Parts, OtherModelsOfTheFamilyAreRefusedByName) {
  refuse_index("image_encoder", {"transformers", "CLIPVisionModel"}, "image-to-video");
  refuse_index("transformer_2", {"diffusers", "WanTransformer3DModel"}, "Wan2.2");
  refuse_index("boundary_ratio", 0.875, "Wan2.2");
  refuse_index("expand_timesteps", true, "Wan2.2");
  refuse_index("_class_name", "WanVACEPipeline", "VACE");
  test::TinyModel().write(root());
  fs::create_directories(root() / "low_noise_model");
  EXPECT_THAT(fault().message(), HasSubstr("Wan2.2's models are not supported"));
}

TEST_F(Parts, PartsThatAreNoSafetensorsFilesAreRefusedByName) {
  const auto refused = [&](const char* file, const std::string& text) {
    test::write_text(folder_ / file, "x");
    const Status status = fault({.transformer = folder_ / file, .vae = {}, .text_encoder = {}});
    EXPECT_EQ(status.code(), StatusCode::kUnsupported) << status.message();
    EXPECT_THAT(status.message(), AllOf(HasSubstr(file), HasSubstr(text)));
  };
  refused("wan.gguf", "a GGUF file");
  refused("wan.pth", "convert it to safetensors with: python -c");
  refused("wan.bin", "convert it to safetensors with: python -c");
  EXPECT_EQ(fault({.transformer = folder_ / "none", .vae = {}, .text_encoder = {}}).code(),
            StatusCode::kIoError);
  const Status vae = fault({.transformer = {}, .vae = root(), .text_encoder = {}});
  EXPECT_THAT(vae.message(), HasSubstr("[model] vae: expected none"));
}

TEST_F(Parts, AFolderOfPicklesSaysHowToConvertThem) {
  fs::rename(root() / "transformer" / "diffusion_pytorch_model.safetensors",
             root() / "transformer" / "diffusion_pytorch_model.bin");
  const ModelFolder model = ModelFolder::open(root()).value();
  EXPECT_THAT(model.open_transformer().status().message(),
              AllOf(HasSubstr("got diffusion_pytorch_model.bin, a PyTorch checkpoint"),
                    HasSubstr("python -c")));
}

TEST_F(Parts, ATextEncoderOfAnotherWidthIsRefused) {
  test::TinyModel other;
  other.text_encoder["shared.weight"] = {{50, 8}, std::vector<float>(400)};
  test::write_tensors(folder_ / "t5.safetensors", other.text_encoder);
  const Status status =
      fault({.transformer = {}, .vae = {}, .text_encoder = folder_ / "t5.safetensors"});
  EXPECT_THAT(status.message(), HasSubstr("text_dim: expected 8"));
}

}  // namespace
}  // namespace vsa::runtime
