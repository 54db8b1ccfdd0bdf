// The VAE's configuration: defaults, ranges, and other models' that are refused by name.
#include "runtime/vae/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace vsa::vae {
namespace {

using nlohmann::json;
using testing::HasSubstr;

Result<VaeConfig> parse(const json& object) {
  std::vector<std::string> ignored;
  return parse_vae_config(object, "vae/config.json", ignored);
}

TEST(VaeConfig, DefaultsAreWan21s) {
  const VaeConfig config = parse(json::object()).value();
  EXPECT_EQ(config.base_dim, 96);
  EXPECT_EQ(config.z_dim, 16);
  EXPECT_EQ(config.dim_mult, (std::vector<int64_t>{1, 2, 4, 4}));
  EXPECT_EQ(config.temporal_downsample, (std::vector<bool>{false, true, true}));
  EXPECT_EQ(config.spatial_factor(), 8);
  EXPECT_EQ(config.temporal_factor(), 4);
  EXPECT_EQ(config.latents_mean.size(), 16U);
  EXPECT_EQ(config.latents_std.size(), 16U);
}

TEST(VaeConfig, ReadsEveryField) {
  std::vector<std::string> ignored;
  const VaeConfig config = parse_vae_config({{"_class_name", "AutoencoderKLWan"},
                                             {"_diffusers_version", "0.42.0"},
                                             {"base_dim", 32},
                                             {"z_dim", 2},
                                             {"dim_mult", {1, 3}},
                                             {"num_res_blocks", 1},
                                             {"temperal_downsample", {true}},
                                             {"attn_scales", json::array()},
                                             {"dropout", 0.0},
                                             {"latents_mean", {0.5, -1}},
                                             {"latents_std", {2, 0.25}},
                                             {"is_residual", false},
                                             {"decoder_base_dim", nullptr},
                                             {"patch_size", nullptr},
                                             {"in_channels", 3},
                                             {"out_channels", 3},
                                             {"scale_factor_spatial", 2},
                                             {"scale_factor_temporal", 2},
                                             {"colour", "blue"}},
                                            "c", ignored)
                               .value();
  EXPECT_EQ(config.dim(1), 96);
  EXPECT_EQ(config.spatial_factor(), 2);
  EXPECT_EQ(config.temporal_factor(), 2);
  EXPECT_EQ(config.latents_mean, (std::vector<float>{0.5F, -1.0F}));
  EXPECT_EQ(config.latents_std, (std::vector<float>{2.0F, 0.25F}));
  EXPECT_EQ(ignored, std::vector<std::string>{"colour"});
}

TEST(VaeConfig, R28_Wan22sIsRefusedByName) {
  for (const auto& [field, value] : {std::pair<const char*, json>{"is_residual", true},
                                     {"patch_size", 2},
                                     {"in_channels", 12},
                                     {"out_channels", 12},
                                     {"decoder_base_dim", 256}}) {
    const Status status = parse({{field, value}}).status();
    EXPECT_EQ(status.code(), StatusCode::kUnsupported) << field;
    EXPECT_THAT(status.message(), HasSubstr(field));
    EXPECT_THAT(status.message(), HasSubstr("Wan2.2's VAE is not supported"));
  }
}

TEST(VaeConfig, R28_AnotherClassIsRefusedByName) {
  const Status status = parse({{"_class_name", "AutoencoderKL"}}).status();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("expected AutoencoderKLWan, got \"AutoencoderKL\""));
  EXPECT_EQ(parse({{"attn_scales", {0.5}}}).status().code(), StatusCode::kUnsupported);
}

TEST(VaeConfig, WrongTypesAndRangesAreNamed) {
  const std::pair<std::string, json> cases[] = {
      {"base_dim", 0},
      {"base_dim", 1},  // halved on the way up
      {"base_dim", 1 << 21},
      {"z_dim", "16"},
      {"z_dim", 15},  // latents_mean has 16
      {"dim_mult", json::array()},
      {"dim_mult", {1, 2, 4, 0}},
      {"dim_mult", {1, 2, 4, 1 << 19}},
      {"dim_mult", {1, 2, 4}},
      {"dim_mult", {1, 2, 4, 1.5}},
      {"dim_mult", 4},
      {"dim_mult", std::vector<int>(9, 1)},
      {"num_res_blocks", 65},
      {"temperal_downsample", {false, true}},
      {"temperal_downsample", {0, 1, 1}},
      {"latents_mean", {1.0}},
      {"latents_std", std::vector<float>(16, 0.0F)},
      {"scale_factor_spatial", 16},
      {"scale_factor_temporal", 8},
  };
  for (const auto& [field, value] : cases) {
    const Status status = parse({{field, value}}).status();
    EXPECT_EQ(status.code(), StatusCode::kIoError) << field << " " << value.dump();
    EXPECT_THAT(status.message(), HasSubstr("vae/config.json")) << field;
  }
}

TEST(VaeConfig, R28_LatentsOfAnotherWidthNameBothFiles) {
  const VaeConfig config;
  EXPECT_TRUE(check_latent_channels(config, "m/vae", 16, "m/transformer").ok());
  const Status status = check_latent_channels(config, "a/vae", 48, "b/transformer");
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  for (const char* part : {"a/vae", "b/transformer", "48", "16"}) {
    EXPECT_THAT(status.message(), HasSubstr(part));
  }
}

}  // namespace
}  // namespace vsa::vae
