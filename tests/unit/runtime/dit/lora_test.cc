// LoRAs: names of five kinds, what each tensor of a file does, and files that do not fit.
#include "runtime/dit/lora.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/dit/lora_names.h"
#include "runtime/dit/weights.h"
#include "runtime/nn/convert.h"
#include "tests/runtime_support/arrays.h"
#include "tests/runtime_support/tiny_model.h"
#include "tests/unit/runtime/io/files.h"
#include "vsa/half.h"

namespace vsa::dit {
namespace {

using test::TinyTensor;
using test::TinyTensors;
using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kWidth = 32, kFfn = 48, kRank = 4;

TinyTensor tensor(std::vector<int64_t> shape, uint64_t seed) {
  int64_t n = 1;
  for (const int64_t extent : shape) n *= extent;
  return {std::move(shape), test::normal_f32(n, seed)};
}

class LoraFiles : public testing::Test {
 protected:
  LoraFiles() {
    model_.write(folder_ / "model");
    std::vector<std::string> ignored;
    config_ = parse_wan_config(model_.transformer_config, "c", ignored).value();
    checkpoint_ = io::Checkpoint::open(folder_ / "model" / "transformer").value();
  }

  std::filesystem::path write(const TinyTensors& tensors,
                              const std::map<std::string, std::string>& metadata = {},
                              const std::string& name = "lora.safetensors") const {
    test::write_tensors(folder_ / name, tensors, /*as_f16=*/false, metadata);
    return folder_ / name;
  }
  Result<WanWeights> load(std::vector<LoraSpec> loras) {
    return find_weights(config_, checkpoint_, report_, loras);
  }
  std::string fault(const TinyTensors& tensors) {
    const Status status = load({{write(tensors)}}).status();
    EXPECT_EQ(status.code(), StatusCode::kIoError) << status.message();
    return status.message();
  }
  const std::vector<float>& original(const std::string& name) const {
    return model_.transformer.at(name).values;
  }

  /// W + scale * up down, computed apart from the runtime.
  test::Exact merged(const std::vector<float>& weight, const TinyTensor& up, const TinyTensor& down,
                     double scale) const {
    test::Exact exact;
    const int64_t rank = down.shape[0];
    const int64_t in = std::ssize(down.values) / rank;
    for (int64_t i = 0; i < std::ssize(weight); ++i) {
      double value = weight[static_cast<size_t>(i)];
      double magnitude = std::abs(value);
      for (int64_t r = 0; r < rank; ++r) {
        const double term = scale * up.values[static_cast<size_t>(i / in * rank + r)] *
                            down.values[static_cast<size_t>(r * in + i % in)];
        value += term;
        magnitude += std::abs(term);
      }
      exact.add(value, magnitude);
    }
    return exact;
  }
  void expect_merged(const nn::Weight& got, const test::Exact& want) const {
    // A rounding each for the scale, the products, their sum over the rank, and the addition.
    test::expect_rounded(nn::values(got), want, 2.0 * kRank + 4.0);
  }

  test::ScratchDirectory folder_;
  test::TinyModel model_;
  WanConfig config_;
  io::Checkpoint checkpoint_;
  LoadReport report_;
};

TEST_F(LoraFiles, ProductsUnderEveryNaming) {
  const TinyTensor down = tensor({kRank, kWidth}, 1);
  const TinyTensor up = tensor({kFfn, kRank}, 2);
  const auto want = merged(original("blocks.1.ffn.net.0.proj.weight"), up, down, 0.5);
  const std::pair<const char*, const char*> namings[] = {
      {"transformer.blocks.1.ffn.net.0.proj.lora_A.weight",
       "transformer.blocks.1.ffn.net.0.proj.lora_B.weight"},
      {"base_model.model.blocks.1.ffn.net.0.proj.lora_A.default.weight",
       "base_model.model.blocks.1.ffn.net.0.proj.lora_B.default.weight"},
      {"base_model.model.blocks.1.ffn.net.0.proj.lora_A.weight",
       "base_model.model.blocks.1.ffn.net.0.proj.lora_B.weight"},
      {"blocks.1.ffn.0.lora_A.weight", "blocks.1.ffn.0.lora_B.weight"},
      {"diffusion_model.blocks.1.ffn.0.lora_down.weight",
       "diffusion_model.blocks.1.ffn.0.lora_up.weight"},
      {"lora_unet_blocks_1_ffn_0.lora_down.weight", "lora_unet_blocks_1_ffn_0.lora_up.weight"},
      {"lora_unet__blocks_1_ffn_net_0_proj.lora_down.weight",
       "lora_unet__blocks_1_ffn_net_0_proj.lora_up.weight"},
      {"blocks.1.ffn.fc_in.lora_A.weight", "blocks.1.ffn.fc_in.lora_B.weight"},
  };
  for (const auto& [a, b] : namings) {
    const auto weights = load({{.file = write({{a, down}, {b, up}}), .strength = 0.5}});
    ASSERT_TRUE(weights.ok()) << a << ": " << weights.status().message();
    EXPECT_EQ(report_.changed, 1) << a;
    expect_merged(weights->blocks[1].up.weight, want);
    EXPECT_EQ(nn::values(weights->blocks[0].up.weight), original("blocks.0.ffn.net.0.proj.weight"));
  }
}

TEST_F(LoraFiles, W01_WansNorm3IsDiffusersNorm2) {
  const TinyTensor diff = tensor({kWidth}, 3);
  const auto weights = load({{write({{"diffusion_model.blocks.0.norm3.diff", diff},
                                     {"diffusion_model.blocks.0.norm3.diff_b", diff},
                                     {"diffusion_model.blocks.0.self_attn.norm_q.diff", diff}})}});
  ASSERT_TRUE(weights.ok()) << weights.status().message();
  EXPECT_EQ(report_.changed, 3);
  const auto expect_sum = [&](const nn::Weight& got, const std::string& name) {
    const std::vector<float> values = nn::values(got);
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(values[i], original(name)[i] + diff.values[i]) << name;
    }
  };
  expect_sum(weights->blocks[0].text_norm_weight, "blocks.0.norm2.weight");
  expect_sum(weights->blocks[0].text_norm_bias, "blocks.0.norm2.bias");
  expect_sum(weights->blocks[0].self.norm_q, "blocks.0.attn1.norm_q.weight");
}

TEST_F(LoraFiles, AlphaScalesTheProduct) {
  const TinyTensor down = tensor({kRank, kWidth}, 1);
  const TinyTensor up = tensor({kWidth, kRank}, 2);
  const std::string name = "blocks.0.attn1.to_gate_compress";  // a gate, under either name
  const auto& weight = original("blocks.0.to_gate_compress.weight");
  const TinyTensors pair = {{name + ".lora_A.weight", down}, {name + ".lora_B.weight", up}};
  TinyTensors with_alpha = pair;
  with_alpha[name + ".alpha"] = {{}, {1.0F}};
  const auto gate = [&](const std::filesystem::path& file) {
    return load({{file}}).value().blocks[0].gate.weight;
  };
  expect_merged(gate(write(with_alpha)), merged(weight, up, down, 1.0 / kRank));
  expect_merged(gate(write(pair)), merged(weight, up, down, 1.0));
  const auto metadata = [&](const std::string& text) {
    return gate(write(pair, {{"lora_adapter_metadata", text}}));
  };
  expect_merged(metadata(R"({"transformer.lora_alpha": 8, "transformer.r": 4})"),
                merged(weight, up, down, 2.0));
  expect_merged(metadata(R"({"lora_alpha": 8, "use_rslora": true})"),
                merged(weight, up, down, 4.0));
  expect_merged(metadata(R"({"lora_alpha": 8, "alpha_pattern": {"to_gate_compress": 2}})"),
                merged(weight, up, down, 0.5));
  expect_merged(metadata(R"({"lora_alpha": 8, "alpha_pattern": {"compress": 2}})"),
                merged(weight, up, down, 2.0));
}

TEST_F(LoraFiles, PeftsOwnFolderHasItsAlphaBeside) {
  const TinyTensor down = tensor({kRank, kWidth}, 1);
  const TinyTensor up = tensor({kWidth, kRank}, 2);
  const std::string name = "base_model.model.blocks.2.attn2.to_v";
  const auto file = write({{name + ".lora_A.weight", down}, {name + ".lora_B.weight", up}}, {},
                          "adapter_model.safetensors");
  test::write_text(folder_ / "adapter_config.json",
                   R"({"peft_type": "LORA", "r": 4, "lora_alpha": 2, "use_dora": false})");
  expect_merged(load({{file}}).value().blocks[2].text.v.weight,
                merged(original("blocks.2.attn2.to_v.weight"), up, down, 0.5));
  test::write_text(folder_ / "adapter_config.json", R"({"use_dora": true, "lora_alpha": 2})");
  EXPECT_EQ(load({{file}}).status().code(), StatusCode::kUnsupported);
  EXPECT_THAT(load({{file}}).status().message(), HasSubstr("use_dora: expected false, got true"));
}

TEST_F(LoraFiles, R18_SetReplacesDiffAddsDiffBAddsToTheBias) {
  const TinyTensor set = tensor({kWidth, kWidth}, 4);
  const TinyTensor diff = tensor({kWidth, kWidth}, 5);
  const TinyTensor bias = tensor({kWidth}, 6);
  const std::string name = "diffusion_model.blocks.0.cross_attn.o";
  const auto out = [&](const TinyTensors& tensors, double strength) {
    return load({{write(tensors), strength}}).value().blocks[0].text.out;
  };
  EXPECT_EQ(nn::values(out({{name + ".set_weight", set}}, 1.0).weight), set.values);
  const auto& weight = original("blocks.0.attn2.to_out.0.weight");
  const auto& old_bias = original("blocks.0.attn2.to_out.0.bias");
  const nn::LinearWeights both = out({{name + ".diff", diff}, {name + ".diff_b", bias}}, 2.0);
  const std::vector<float> got = nn::values(both.weight);
  const std::vector<float> got_bias = nn::values(both.bias);
  const std::vector<float> half = nn::values(out({{name + ".set_weight", set}}, 0.5).weight);
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i], weight[i] + 2.0F * diff.values[i]);
    ASSERT_EQ(half[i], weight[i] + 0.5F * (set.values[i] - weight[i]));
  }
  for (size_t i = 0; i < got_bias.size(); ++i) {
    ASSERT_EQ(got_bias[i], old_bias[i] + 2.0F * bias.values[i]);
  }
  // The weight that is set is what a product of the same file is added to.
  const TinyTensor down = tensor({kRank, kWidth}, 1);
  const TinyTensor up = tensor({kWidth, kRank}, 2);
  expect_merged(out({{name + ".set_weight", set},
                     {name + ".lora_down.weight", down},
                     {name + ".lora_up.weight", up}},
                    1.0)
                    .weight,
                merged(set.values, up, down, 1.0));
}

TEST_F(LoraFiles, ModulationsAndTensorsThatAreNoWeights) {
  const TinyTensor block = tensor({1, 6, kWidth}, 7);
  const TinyTensor head = tensor({1, 2, kWidth}, 8);
  const auto weights = load({{write({{"diffusion_model.blocks.1.diff_m", block},
                                     {"diffusion_model.blocks.2.modulation.diff", block},
                                     {"diffusion_model.head.diff_m", head}})}});
  ASSERT_TRUE(weights.ok()) << weights.status().message();
  EXPECT_EQ(nn::values(weights->blocks[1].scale_shift)[5],
            original("blocks.1.scale_shift_table")[5] + block.values[5]);
  EXPECT_EQ(nn::values(weights->blocks[2].scale_shift)[5],
            original("blocks.2.scale_shift_table")[5] + block.values[5]);
  EXPECT_EQ(nn::values(weights->head_scale_shift)[40],
            original("scale_shift_table")[40] + head.values[40]);
}

TEST_F(LoraFiles, SeveralFilesAddUpAndStrengthZeroIsNone) {
  const TinyTensor diff = tensor({kWidth}, 5);
  const TinyTensors file = {{"diffusion_model.blocks.0.self_attn.q.diff_b", diff}};
  const auto first = write(file, {}, "first.safetensors");
  const auto second = write(file, {}, "second.safetensors");
  const auto bias = [&](const std::vector<LoraSpec>& loras) {
    return nn::values(load(loras).value().blocks[0].self.q.bias);
  };
  const auto& old = original("blocks.0.attn1.to_q.bias");
  const std::vector<float> both = bias({{first, 1.0}, {second, -3.0}});
  for (size_t i = 0; i < both.size(); ++i) {
    ASSERT_EQ(both[i], (old[i] + diff.values[i]) + -3.0F * diff.values[i]);
  }
  EXPECT_EQ(bias({{first, 0.0}}), old);
}

TEST_F(LoraFiles, APatchEmbeddingIsAProductOfConvolutions) {
  const TinyTensor down = tensor({kRank, 3, 2, 4, 4}, 1);
  const TinyTensor up = tensor({kWidth, kRank, 1, 1, 1}, 2);
  const auto weights = load({{write({{"diffusion_model.patch_embedding.lora_down.weight", down},
                                     {"diffusion_model.patch_embedding.lora_up.weight", up}})}});
  expect_merged(weights.value().patch_embedding.weight,
                merged(original("patch_embedding.weight"), up, down, 1.0));
}

TEST_F(LoraFiles, HalvesAreRoundedOnceAfterTheMerge) {
  test::TinyModel half;
  half.as_f16 = true;
  half.write(folder_ / "half");
  checkpoint_ = io::Checkpoint::open(folder_ / "half" / "transformer").value();
  const TinyTensor down = tensor({kRank, kWidth}, 1);
  const TinyTensor up = tensor({kWidth, kRank}, 2);
  const std::string name = "blocks.0.self_attn.k";
  const auto weights =
      load({{write({{name + ".lora_down.weight", down}, {name + ".lora_up.weight", up}})}});
  const std::vector<float> got = nn::values(weights.value().blocks[0].self.k.weight);
  std::vector<float> rounded = original("blocks.0.attn1.to_k.weight");
  for (float& x : rounded) x = static_cast<float>(F16(x));
  const test::Exact want = merged(rounded, up, down, 1.0);
  for (size_t i = 0; i < got.size(); ++i) {
    // The nearest half is within 2^-11 of a number; f32 arithmetic may take the other neighbour.
    ASSERT_NEAR(got[i], want.value[i], std::abs(want.value[i]) * 0x1p-11 + 1e-5) << i;
    ASSERT_EQ(got[i], static_cast<float>(F16(got[i]))) << i;
  }
  const TinyTensors large = {
      {name + ".diff", {{kWidth, kWidth}, std::vector<float>(kWidth * kWidth, 7e4F)}}};
  const auto overflowing = load({{write(large)}}).value();
  EXPECT_THROW(nn::values(overflowing.blocks[0].self.k.weight), Error);
}

TEST_F(LoraFiles, WhatDoesNotFitIsCountedAndNamed) {
  const TinyTensor down = tensor({kRank, kWidth}, 1);
  const TinyTensor up = tensor({kWidth, kRank}, 2);
  EXPECT_THAT(fault({{"diffusion_model.blocks.0.cross_attn.k_img.lora_down.weight", down},
                     {"diffusion_model.blocks.0.cross_attn.k_img.lora_up.weight", up},
                     {"diffusion_model.blocks.9.self_attn.q.diff_b", tensor({kWidth}, 3)},
                     {"diffusion_model.blocks.0.self_attn.q.diff_b", tensor({kWidth}, 3)}}),
              AllOf(HasSubstr("got 2 that do not fit it"), HasSubstr("blocks.0.cross_attn.k_img"),
                    HasSubstr("blocks.9.self_attn.q"), HasSubstr("no such module")));
  EXPECT_THAT(fault({{"blocks.0.self_attn.q.lora_A.weight", down}}),
              HasSubstr("lora_A without lora_B"));
  EXPECT_THAT(fault({{"blocks.0.ffn.0.lora_A.weight", down}, {"blocks.0.ffn.0.lora_B.weight", up}}),
              HasSubstr("F32 [32,4] times F32 [4,32] for blocks.0.ffn.net.0.proj.weight [48,32]"));
  EXPECT_THAT(fault({{"blocks.0.ffn.0.dora_scale", up}}), HasSubstr("no part of a LoRA"));
  EXPECT_THAT(fault({{"blocks.0.self_attn.q.diff_b", up}}),
              HasSubstr("F32 [32,4] for blocks.0.attn1.to_q.bias [32]"));
  TinyTensors many;
  for (int i = 0; i < 6; ++i) many["lora_te_" + std::to_string(i) + ".alpha"] = {{}, {1.0F}};
  EXPECT_THAT(fault(many), AllOf(HasSubstr("got 6 that do not fit it"), HasSubstr(", ...")));
}

TEST_F(LoraFiles, AGateOfAModelWithoutGatesDoesNotFit) {
  test::TinyModel(1, /*gates=*/false).write(folder_ / "bare");
  checkpoint_ = io::Checkpoint::open(folder_ / "bare" / "transformer").value();
  EXPECT_THAT(fault({{"blocks.0.to_gate_compress.diff_b", tensor({kWidth}, 3)}}),
              HasSubstr("blocks.0.to_gate_compress"));
}

TEST(LoraKeys, KeysAreTakenApart) {
  const auto key = parse_lora_key("base_model.model.blocks.0.attn1.to_q.lora_A.my_adapter.weight");
  ASSERT_TRUE(key);
  EXPECT_EQ(key->module, "blocks.0.attn1.to_q");
  EXPECT_EQ(key->role, LoraRole::kDown);
  EXPECT_FALSE(key->flat);
  EXPECT_TRUE(parse_lora_key("lora_unet_blocks_0_ffn_2.alpha")->flat);
  EXPECT_FALSE(parse_lora_key("blocks.0.attn1.to_q.weight"));
}

}  // namespace
}  // namespace vsa::dit
