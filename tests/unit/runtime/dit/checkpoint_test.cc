// Loading a transformer: three namings, gates, and files that do not fit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/dit/cpu/model.h"
#include "runtime/dit/tensor_names.h"
#include "runtime/dit/transformer.h"
#include "tests/runtime_support/arrays.h"
#include "tests/runtime_support/rename.h"
#include "tests/runtime_support/tiny_model.h"
#include "tests/unit/runtime/io/files.h"

namespace vsa::dit {
namespace {

using testing::HasSubstr;

class WanCheckpoint : public testing::Test {
 protected:
  Result<WanWeights> load(const test::TinyModel& model) {
    model.write(folder_.path());
    checkpoint_ = io::Checkpoint::open(folder_ / "transformer").value();
    std::vector<std::string> ignored;
    const WanConfig config = parse_wan_config(model.transformer_config, "c", ignored).value();
    return find_weights(config, checkpoint_, report_);
  }
  std::string fault(const test::TinyModel& model) {
    const Status status = load(model).status();
    EXPECT_EQ(status.code(), StatusCode::kIoError) << status.message();
    return status.message();
  }

  /// What the model predicts for some input.
  std::vector<float> predict(const test::TinyModel& model) {
    const auto transformer = cpu::make_model(load(model).value(), Context{}).value();
    text::TextEmbedding text{.rows = nn::Buffer(4 * 24), .num_rows = 4, .num_valid = 3};
    const std::vector<float> rows = test::normal_f32(4 * 24, 8);
    std::ranges::copy(rows, text.rows.data());
    const auto context = transformer->prepare_text(text).value();
    const Grid grid{2, 4, 5};
    const auto steps =
        transformer->make_steps(grid, TilePlan::grid(grid, {2, 4, 4}).value()).value();
    const std::vector<float> latents = test::normal_f32(3 * 4 * 16 * 20, 9);
    std::vector<float> velocity(latents.size());
    std::vector<LayerStats> stats(3);
    const std::vector<int64_t> topk(3, 1);
    throw_if_error(forward({.latents = latents.data(),
                            .timestep = 500.0F,
                            .text = context.get(),
                            .topk = topk,
                            .on_layer = {},
                            .velocity = velocity.data()},
                           *steps, stats));
    return velocity;
  }

  test::ScratchDirectory folder_;
  io::Checkpoint checkpoint_;
  LoadReport report_;
};

TEST_F(WanCheckpoint, AllNamingsLoadTheSameModel) {
  const test::TinyModel model;
  const std::vector<float> want = predict(model);
  EXPECT_EQ(report_.naming, "diffusers");
  const int64_t loaded = report_.summary.loaded;

  test::TinyModel other = model;
  other.transformer = test::with_wan_names(model.transformer);
  EXPECT_EQ(predict(other), want);
  EXPECT_EQ(report_.naming, "wan");
  EXPECT_EQ(report_.summary.loaded, loaded);
  EXPECT_TRUE(report_.summary.unused.empty());

  other.transformer = test::with_fastvideo_names(model.transformer);
  EXPECT_EQ(predict(other), want);
  EXPECT_EQ(report_.naming, "fastvideo");
  EXPECT_EQ(report_.summary.loaded, loaded);

  other.transformer.clear();
  for (const auto& [name, tensor] : model.transformer) {
    other.transformer["model.diffusion_model." + name] = tensor;
  }
  EXPECT_EQ(predict(other), want);
}

TEST_F(WanCheckpoint, W01_Norm2AndNorm3AreNotMixedUp) {
  EXPECT_EQ(diffusers_name("blocks.3.norm3.weight", Naming::kOriginal), "blocks.3.norm2.weight");
  EXPECT_EQ(diffusers_name("blocks.3.norm2.weight", Naming::kDiffusers), "blocks.3.norm2.weight");
  // Wan's norm2 has no weights; a file that has some is another model, and they go unused.
  EXPECT_EQ(diffusers_name("head.modulation", Naming::kOriginal), "scale_shift_table");
  EXPECT_EQ(diffusers_name("blocks.0.modulation", Naming::kOriginal), "blocks.0.scale_shift_table");
  EXPECT_EQ(diffusers_name("blocks.0.attn2.to_out.weight", Naming::kFastVideo),
            "blocks.0.attn2.to_out.0.weight");
  EXPECT_EQ(diffusers_name("blocks.0.to_out.weight", Naming::kFastVideo),
            "blocks.0.attn1.to_out.0.weight");
}

TEST_F(WanCheckpoint, R19_TheGateMayLieInTheAttentionModule) {
  test::TinyModel model;
  const std::vector<float> want = predict(model);
  for (const char* part : {"weight", "bias"}) {
    for (const char* layer : {"0", "1", "2"}) {
      auto gate =
          model.transformer.extract("blocks." + std::string(layer) + ".to_gate_compress." + part);
      gate.key() = "blocks." + std::string(layer) + ".attn1.to_gate_compress." + part;
      model.transformer.insert(std::move(gate));
    }
  }
  EXPECT_EQ(predict(model), want);
  EXPECT_TRUE(report_.has_gates);
}

TEST_F(WanCheckpoint, R19_GatesInSomeLayersAreAnError) {
  test::TinyModel model;
  model.transformer.erase("blocks.1.to_gate_compress.weight");
  EXPECT_THAT(
      fault(model),
      HasSubstr("to_gate_compress: expected gates in all 3 layers or in none, got them in 2"));
  model = test::TinyModel();
  model.transformer.erase("blocks.1.to_gate_compress.bias");
  EXPECT_THAT(fault(model), HasSubstr("blocks.1.to_gate_compress.bias"));
}

TEST_F(WanCheckpoint, R19_TheGateCounts) {
  const std::vector<float> gated = predict(test::TinyModel(1, true));
  const std::vector<float> bare = predict(test::TinyModel(1, false));
  EXPECT_FALSE(report_.has_gates);
  EXPECT_NE(gated, bare);
}

TEST_F(WanCheckpoint, MissingTensorsAreAllListed) {
  test::TinyModel model;
  model.transformer.erase("blocks.2.norm2.bias");
  model.transformer.erase("proj_out.weight");
  EXPECT_THAT(fault(model),
              testing::AllOf(HasSubstr("2 of them are missing"), HasSubstr("blocks.2.norm2.bias"),
                             HasSubstr("proj_out.weight")));
}

TEST_F(WanCheckpoint, AConfigThatPromisesMoreThanTheFileHasIsAnError) {
  test::TinyModel model;
  model.transformer_config["num_layers"] = 2147483647;
  EXPECT_THAT(fault(model), HasSubstr("expected 2147483647 layers (num_layers), got 3"));
  model.transformer_config["num_layers"] = 2;
  EXPECT_THAT(fault(model), HasSubstr("expected 2 layers (num_layers), got 3"));
  model = test::TinyModel();
  model.transformer_config["ffn_dim"] = 1 << 20;
  EXPECT_THAT(fault(model), HasSubstr("blocks.0.ffn.net.0.proj.bias: expected shape [1048576]"));
}

TEST_F(WanCheckpoint, UnusedTensorsAreListed) {
  test::TinyModel model;
  model.transformer["blocks.0.attn2.norm_added_q.weight"] = {{2}, {1, 2}};
  model.transformer["blocks.0x.norm2.weight"] = {{2}, {1, 2}};
  EXPECT_TRUE(load(model).ok());
  EXPECT_THAT(report_.summary.unused,
              testing::ElementsAre("blocks.0.attn2.norm_added_q.weight", "blocks.0x.norm2.weight"));
}

TEST_F(WanCheckpoint, AWrongShapeIsNamed) {
  test::TinyModel model;
  model.transformer["blocks.0.attn1.norm_q.weight"] = {{16}, std::vector<float>(16)};
  EXPECT_THAT(fault(model), HasSubstr("blocks.0.attn1.norm_q.weight: expected shape [32], got"));
  model = test::TinyModel();
  model.transformer["patch_embedding.weight"].shape = {32, 96};
  EXPECT_THAT(fault(model), HasSubstr("patch_embedding.weight: expected shape [32,3,2,4,4]"));
}

TEST_F(WanCheckpoint, AnotherModelIsNotTakenForOne) {
  test::TinyModel model;
  model.transformer = {{"decoder.weight", {{1}, {1}}}};
  EXPECT_THAT(fault(model), HasSubstr("names of diffusers, Wan or FastVideo"));
  model = test::TinyModel();
  model.transformer["time_projection.1.weight"] = {{1}, {1}};
  EXPECT_THAT(fault(model), HasSubstr("got 2"));
}

TEST_F(WanCheckpoint, TheSameTensorTwiceIsAnError) {
  test::TinyModel model;
  model.transformer["blocks.0.attn1.to_gate_compress.bias"] =
      model.transformer["blocks.0.to_gate_compress.bias"];
  EXPECT_THAT(fault(model), HasSubstr("expected one tensor blocks.0.to_gate_compress.bias"));
}

}  // namespace
}  // namespace vsa::dit
