// Transformers of other kinds, and configurations read off shapes.
#include "runtime/dit/other_models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/dit/inferred_config.h"
#include "runtime/io/safetensors_writer.h"
#include "tests/runtime_support/rename.h"
#include "tests/runtime_support/tiny_model.h"
#include "tests/unit/runtime/io/files.h"

namespace vsa::dit {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class OtherModels : public testing::Test {
 protected:
  io::Checkpoint write(const test::TinyTensors& tensors) {
    test::write_tensors(folder_ / "w.safetensors", tensors);
    return io::Checkpoint::open(folder_ / "w.safetensors").value();
  }
  /// What is said of a model that also has this tensor.
  std::string refusal(const std::string& tensor) {
    test::TinyTensors tensors = model_.transformer;
    tensors[tensor] = {{1}, {1.0F}};
    const Status status = refuse_other_models(write(tensors));
    EXPECT_EQ(status.code(), StatusCode::kUnsupported) << tensor;
    EXPECT_THAT(status.message(), HasSubstr(tensor));
    return status.message();
  }

  test::ScratchDirectory folder_;
  test::TinyModel model_;
};

TEST_F(OtherModels, TextToVideoIsTaken) {
  EXPECT_TRUE(refuse_other_models(write(model_.transformer)).ok());
  EXPECT_TRUE(refuse_other_models(write(test::with_wan_names(model_.transformer))).ok());
}

TEST_F(OtherModels, AreNamedByTheirTensors) {
  EXPECT_THAT(refusal("model.diffusion_model.img_emb.proj.0.weight"), HasSubstr("image-to-video"));
  EXPECT_THAT(refusal("blocks.0.cross_attn.k_img.weight"), HasSubstr("image-to-video"));
  EXPECT_THAT(refusal("blocks.0.attn2.add_k_proj.weight"), HasSubstr("image-to-video"));
  EXPECT_THAT(refusal("vace_blocks.0.before_proj.weight"), HasSubstr("VACE"));
  EXPECT_THAT(refusal("blocks.0.self_attn.q.scale_weight"), HasSubstr("take the bf16 or f16 file"));
}

TEST_F(OtherModels, R14_EightBitsAreRefused) {
  const std::vector<std::byte> bytes(4);
  for (const auto type : {io::StorageType::kF8E4M3, io::StorageType::kF8E5M2}) {
    throw_if_error(io::write_safetensors(folder_ / "f8.safetensors",
                                         {{"blocks.0.ffn.0.weight", {type, {2, 2}, bytes}}}, {}));
    const auto checkpoint = io::Checkpoint::open(folder_ / "f8.safetensors").value();
    EXPECT_THAT(refuse_other_models(checkpoint).message(),
                AllOf(HasSubstr("blocks.0.ffn.0.weight"), HasSubstr("F8_E"),
                      HasSubstr("take the bf16 or f16 file of the same model")));
  }
}

TEST_F(OtherModels, ConfigurationOfShapes) {
  std::vector<std::string> ignored;
  const WanConfig want = parse_wan_config(model_.transformer_config, "c", ignored).value();
  const io::Checkpoint checkpoint = write(test::with_wan_names(model_.transformer));
  const WanConfig config = infer_wan_config(checkpoint, want).value();
  EXPECT_EQ(config.num_heads, want.num_heads);
  EXPECT_EQ(config.head_dim, want.head_dim);
  EXPECT_EQ(config.num_layers, 3);
  EXPECT_EQ(config.ffn_dim, want.ffn_dim);
  EXPECT_EQ(config.freq_dim, want.freq_dim);
  EXPECT_EQ(config.text_dim, want.text_dim);
  EXPECT_EQ(config.in_channels, 3);
  EXPECT_EQ(config.out_channels, 3);
  EXPECT_EQ(config.patch.volume(), 32);
  EXPECT_TRUE(config.qk_norm);
  EXPECT_TRUE(config.cross_attn_norm);
  // Nothing shows how 32 elements are cut into heads.
  EXPECT_THAT(infer_wan_config(checkpoint, {}).status().message(),
              HasSubstr("expected a width that is a multiple of 128"));
}

TEST_F(OtherModels, ConfigurationOfShapesNeedsTheTensors) {
  test::TinyTensors tensors = model_.transformer;
  tensors.erase("proj_out.weight");
  EXPECT_THAT(infer_wan_config(write(tensors), {}).status().message(),
              HasSubstr("proj_out.weight: expected a tensor of 2 extents, got none"));
  tensors = model_.transformer;
  tensors["patch_embedding.weight"] = {{128, 4, 2, 4, 4}, std::vector<float>(128 * 4 * 32)};
  EXPECT_THAT(infer_wan_config(write(tensors), {}).status().message(),
              HasSubstr("expected as many channels in as out (3), got 4"));
}

}  // namespace
}  // namespace vsa::dit
