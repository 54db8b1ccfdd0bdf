// Loading the VAE: both namings, the published structure, and files that do not fit.
#include "runtime/vae/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "runtime/io/safetensors_writer.h"
#include "runtime/vae/cpu/model.h"
#include "runtime/vae/decoder.h"
#include "runtime/vae/tensor_names.h"
#include "tests/runtime_support/arrays.h"
#include "tests/unit/runtime/io/files.h"

namespace vsa::vae {
namespace {

using testing::HasSubstr;

/// One line of tests/golden/wan-vae-names.txt.
struct Published {
  std::string wan, diffusers;
  std::vector<int64_t> shape;
};

std::vector<Published> published() {
  std::ifstream file(std::string(VSA_SOURCE_DIR) + "/tests/golden/wan-vae-names.txt");
  std::vector<Published> all;
  std::string wan;
  std::string diffusers;
  std::string extents;
  while (file >> wan >> diffusers >> extents) {
    std::istringstream list(extents);
    std::vector<int64_t> shape;
    for (std::string extent; std::getline(list, extent, ',');) shape.push_back(std::stoll(extent));
    all.push_back({wan, diffusers, shape});
  }
  return all;
}

/// The published structure, 48 times narrower: a file of a few hundred KB.
VaeConfig narrow() {
  VaeConfig config;
  config.base_dim = 2;
  return config;
}

/// Tensors of that configuration by diffusers' names, all of them random.
class Tensors {
 public:
  Tensors() {
    uint64_t seed = 0;
    for (const Published& tensor : published()) {
      std::vector<int64_t> shape = tensor.shape;
      int64_t size = 1;
      for (int64_t& extent : shape) {
        if (extent % 48 == 0) extent /= 48;
        size *= extent;
      }
      values_[tensor.diffusers] = test::normal_f32(size, ++seed);
      map[tensor.diffusers] = {.type = io::StorageType::kF32,
                               .shape = shape,
                               .bytes = std::as_bytes(std::span(values_[tensor.diffusers]))};
    }
  }
  io::TensorMap map;  // tests spoil what they want

 private:
  std::map<std::string, std::vector<float>> values_;
};

class VaeCheckpoint : public testing::Test {
 protected:
  Result<VaeWeights> load(const io::TensorMap& tensors, Half half = Half::kDecoder,
                          const VaeConfig& config = narrow()) {
    throw_if_error(io::write_safetensors(folder_ / "m.safetensors", tensors));
    checkpoint_ = io::Checkpoint::open(folder_ / "m.safetensors").value();
    return find_weights(config, half, checkpoint_, report_);
  }
  std::string fault(const io::TensorMap& tensors, StatusCode code = StatusCode::kIoError) {
    const Status status = load(tensors).status();
    EXPECT_EQ(status.code(), code) << status.message();
    EXPECT_THAT(status.message(), HasSubstr("[load] vae: "));
    EXPECT_EQ(status.message().find('\n'), std::string::npos);
    return status.message();
  }
  std::vector<float> decoded(const io::TensorMap& tensors) {
    const auto model = cpu::make_model(load(tensors).value()).value();
    const std::vector<float> latents = test::normal_f32(16 * 2 * 2 * 3, 8);
    std::vector<float> rgb;
    throw_if_error(decode({.latents = latents.data(),
                           .frames = 2,
                           .height = 2,
                           .width = 3,
                           .split = {},
                           .on_frames = [&](const FrameChunk& chunk) -> Status {
                             rgb.insert(rgb.end(), chunk.rgb.begin(), chunk.rgb.end());
                             return {};
                           },
                           .control = {}},
                          *model));
    return rgb;
  }

  test::ScratchDirectory folder_;
  io::Checkpoint checkpoint_;
  LoadReport report_;
  Tensors tensors_;
};

TEST_F(VaeCheckpoint, PublishedNamesAreAllKnown) {
  const std::vector<Published> all = published();
  ASSERT_EQ(all.size(), 194U);
  for (const Published& tensor : all) {
    EXPECT_EQ(diffusers_name(tensor.wan, Naming::kOriginal, 2), tensor.diffusers);
    EXPECT_EQ(diffusers_name(tensor.diffusers, Naming::kDiffusers, 2), tensor.diffusers);
  }
}

TEST_F(VaeCheckpoint, PublishedShapesFitTheDefaults) {
  // No values: a file of holes of the true shapes.
  io::TensorMap tensors;
  const std::vector<std::byte> zeros(size_t{27} * 384 * 384 * 2);
  for (const Published& tensor : published()) {
    size_t bytes = 2;
    for (const int64_t extent : tensor.shape) bytes *= static_cast<size_t>(extent);
    tensors[tensor.diffusers] = {.type = io::StorageType::kBF16,
                                 .shape = tensor.shape,
                                 .bytes = std::span(zeros).first(bytes)};
  }
  EXPECT_TRUE(load(tensors, Half::kDecoder, VaeConfig{}).ok());
  EXPECT_EQ(report_.summary.parameters, 73295603);
  int64_t loaded = report_.summary.loaded;
  EXPECT_TRUE(load(tensors, Half::kEncoder, VaeConfig{}).ok());
  loaded += report_.summary.loaded;
  EXPECT_EQ(loaded, 194);
  EXPECT_TRUE(report_.summary.unused.empty());
}

TEST_F(VaeCheckpoint, BothNamingsLoadTheSameModel) {
  const std::vector<float> want = decoded(tensors_.map);
  EXPECT_EQ(report_.naming, "diffusers");
  const int64_t loaded = report_.summary.loaded;
  for (const std::string prefix : {"", "vae.", "first_stage_model."}) {
    io::TensorMap renamed;
    for (const Published& tensor : published()) {
      renamed[prefix + tensor.wan] = tensors_.map.at(tensor.diffusers);
    }
    EXPECT_EQ(decoded(renamed), want);
    EXPECT_EQ(report_.naming, "wan");
    EXPECT_EQ(report_.summary.loaded, loaded);
    EXPECT_TRUE(report_.summary.unused.empty());
  }
}

TEST_F(VaeCheckpoint, OneHalfAloneIsEnough) {
  io::TensorMap decoder = tensors_.map;
  std::erase_if(decoder, [](const auto& entry) {
    return entry.first.starts_with("encoder.") || entry.first.starts_with("quant_conv.");
  });
  EXPECT_TRUE(load(decoder, Half::kDecoder).ok());
  const Status status = load(decoder, Half::kEncoder).status();
  EXPECT_THAT(status.message(), HasSubstr("are missing"));
  EXPECT_THAT(status.message(), HasSubstr("encoder.conv_in.weight"));
}

TEST_F(VaeCheckpoint, WrongTensorsAreNamed) {
  io::TensorMap tensors = tensors_.map;
  tensors.erase("decoder.up_blocks.1.upsamplers.0.time_conv.weight");
  EXPECT_THAT(fault(tensors), HasSubstr("1 of them are missing: "
                                        "decoder.up_blocks.1.upsamplers.0.time_conv.weight"));
  tensors = tensors_.map;
  tensors["decoder.conv_in.weight"].shape = {8, 16, 27};
  EXPECT_THAT(fault(tensors),
              HasSubstr("decoder.conv_in.weight: expected shape [8,16,3,3,3], got"));
  tensors = tensors_.map;
  tensors["decoder.mid_block.attentions.0.to_qkv.weight"].type = io::StorageType::kI32;
  EXPECT_THAT(fault(tensors, StatusCode::kUnsupported),
              HasSubstr("to_qkv.weight: expected f16, bf16, f32 or f64"));
  tensors = tensors_.map;
  tensors["decoder.up_blocks.0.resnets.3.norm1.gamma"] = tensors["decoder.norm_out.gamma"];
  EXPECT_TRUE(load(tensors).ok());
  EXPECT_EQ(report_.summary.unused,
            std::vector<std::string>{"decoder.up_blocks.0.resnets.3.norm1.gamma"});
}

TEST_F(VaeCheckpoint, R28_OtherModelsAreCalledByName) {
  const io::TensorView any = tensors_.map.begin()->second;
  for (const char* name : {"decoder.upsamples.0.upsamples.0.residual.0.gamma",
                           "decoder.up_blocks.0.upsampler.resample.1.weight",
                           "encoder.down_blocks.0.resnets.0.conv1.weight"}) {
    io::TensorMap tensors{{name, any}, {"decoder.middle.0.residual.0.gamma", any}};
    EXPECT_THAT(fault(tensors, StatusCode::kUnsupported), HasSubstr("Wan2.2's VAE"));
  }
  // A picture's VAE.
  EXPECT_THAT(fault({{"decoder.mid_block.attentions.0.group_norm.weight", any},
                     {"encoder.down_blocks.0.resnets.0.conv1.weight", any},
                     {"decoder.conv_in.weight", any}}),
              HasSubstr("got none of 3: it is not Wan2.1's VAE"));
  EXPECT_THAT(fault({}), HasSubstr("got none of 0"));
}

}  // namespace
}  // namespace vsa::vae
