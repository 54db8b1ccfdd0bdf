// The transformer's configuration: defaults, ranges, variants that are refused.
#include "runtime/dit/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/runtime_support/tiny_model.h"

namespace vsa::dit {
namespace {

using testing::HasSubstr;

Status status_with(const std::string& key, const nlohmann::json& value) {
  nlohmann::json json = test::TinyModel().transformer_config;
  json[key] = value;
  std::vector<std::string> ignored;
  return parse_wan_config(json, "config.json", ignored).status();
}

TEST(WanConfig, ReadsEveryField) {
  std::vector<std::string> ignored;
  const WanConfig config =
      parse_wan_config(test::TinyModel().transformer_config, "c", ignored).value();
  EXPECT_EQ(config.patch.f, 2);
  EXPECT_EQ(config.patch.w, 4);
  EXPECT_EQ(config.width(), 32);
  EXPECT_EQ(config.num_layers, 3);
  EXPECT_EQ(config.out_channels, 3);
  EXPECT_EQ(config.rope_max_seq_len, 64);
  EXPECT_TRUE(ignored.empty());
}

TEST(WanConfig, DefaultsAreDiffusers) {
  std::vector<std::string> ignored;
  const WanConfig config = parse_wan_config(nlohmann::json::object(), "c", ignored).value();
  EXPECT_EQ(config.width(), 5120);
  EXPECT_EQ(config.ffn_dim, 13824);
  EXPECT_EQ(config.out_channels, 16);
  EXPECT_TRUE(config.qk_norm);
}

TEST(WanConfig, WansOwnFieldsAreRead) {
  const nlohmann::json small = {
      {"_class_name", "WanModel"}, {"model_type", "t2v"}, {"dim", 1536},  {"num_heads", 12},
      {"ffn_dim", 8960},           {"freq_dim", 256},     {"in_dim", 16}, {"out_dim", 16},
      {"num_layers", 30},          {"text_len", 512},     {"eps", 1e-06}};
  std::vector<std::string> ignored;
  const WanConfig config = parse_wan_config(small, "c", ignored).value();
  EXPECT_EQ(config.num_heads, 12);
  EXPECT_EQ(config.head_dim, 128);
  EXPECT_EQ(config.num_layers, 30);
  EXPECT_EQ(config.ffn_dim, 8960);
  EXPECT_EQ(config.text_dim, 4096);
  EXPECT_EQ(config.patch.h, 2);
  EXPECT_TRUE(ignored.empty());
  for (const auto& [type, words] :
       {std::pair{"i2v", "image-to-video models"}, std::pair{"flf2v", "image-to-video models"},
        std::pair{"ti2v", "Wan2.2's models"}, std::pair{"vace", "models of other kinds"}}) {
    nlohmann::json other = small;
    other["model_type"] = type;
    const Status status = parse_wan_config(other, "c", ignored).status();
    EXPECT_EQ(status.code(), StatusCode::kUnsupported);
    EXPECT_THAT(status.message(), HasSubstr(words));
  }
  nlohmann::json odd = small;
  odd["num_heads"] = 7;
  EXPECT_THAT(parse_wan_config(odd, "c", ignored).status().message(),
              HasSubstr("dim: expected a multiple of num_heads 7, got 1536"));
}

TEST(WanConfig, UnknownFieldsAreListed) {
  nlohmann::json json = test::TinyModel().transformer_config;
  json["window"] = 3;
  json["_diffusers_version"] = "1";
  std::vector<std::string> ignored;
  EXPECT_TRUE(parse_wan_config(json, "c", ignored).ok());
  EXPECT_EQ(ignored, std::vector<std::string>{"window"});
}

TEST(WanConfig, ImageToVideoIsRefusedByField) {
  for (const char* field : {"image_dim", "added_kv_proj_dim", "pos_embed_seq_len"}) {
    const Status status = status_with(field, 1280);
    EXPECT_EQ(status.code(), StatusCode::kUnsupported) << field;
    EXPECT_THAT(status.message(), HasSubstr(field));
  }
  const Status status = status_with("in_channels", 36);
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("in_channels: expected out_channels (3), got 36"));
  EXPECT_EQ(status_with("qk_norm", "layer_norm").code(), StatusCode::kUnsupported);
}

TEST(WanConfig, WrongTypesAndRangesAreNamed) {
  const std::pair<std::string, nlohmann::json> cases[] = {
      {"num_layers", 0},
      {"num_layers", "7"},
      {"num_layers", 2.5},
      {"num_layers", 18446744073709551615U},
      {"num_attention_heads", -4},
      {"attention_head_dim", 15},
      {"freq_dim", 33},
      {"ffn_dim", nlohmann::json::array()},
      {"patch_size", {1, 2}},
      {"patch_size", {1, 0, 2}},
      {"patch_size", 2},
      {"cross_attn_norm", 1},
      {"eps", 0.0},
      {"eps", "small"},
      {"qk_norm", 5},
      {"ffn_dim", 1 << 30},
      {"patch_size", {1 << 30, 1 << 30, 1 << 30}},
  };
  for (const auto& [key, value] : cases) {
    const Status status = status_with(key, value);
    EXPECT_EQ(status.code(), StatusCode::kIoError) << key << " " << value;
    EXPECT_THAT(status.message(), HasSubstr("[config] config.json: " + key + ": expected"));
  }
  EXPECT_THAT(status_with("num_attention_heads", 1 << 30).message(),
              HasSubstr("num_attention_heads * attention_head_dim: expected at most"));
  EXPECT_THAT(status_with("in_channels", 1 << 30).message(), HasSubstr("in_channels"));
  std::vector<std::string> ignored;
  EXPECT_EQ(parse_wan_config(nlohmann::json::array(), "c", ignored).status().code(),
            StatusCode::kIoError);
}

}  // namespace
}  // namespace vsa::dit
