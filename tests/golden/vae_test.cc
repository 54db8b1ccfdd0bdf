// The VAE's decoder and encoder against tensors that diffusers made (README.md here).
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "runtime/json_fields.h"
#include "runtime/vae/cpu/model.h"
#include "runtime/vae/decoder.h"
#include "runtime/vae/encoder.h"
#include "tests/runtime_support/arrays.h"
#include "tests/runtime_support/stored_tensors.h"
#include "tests/support/compare.h"

namespace vsa::vae {
namespace {

const std::filesystem::path kGolden = std::filesystem::path(VSA_SOURCE_DIR) / "tests/golden";
// Both sides sum in f32, in other orders. A few hundred rounded operations of 6e-8 each stay below;
// a wrong convention is off by more than 1e-2.
constexpr double kRelativeL2 = 1e-5;

/// A tensor of expected.safetensors.
using Golden = test::TinyTensor;  // [channels, frames, height, width]

using test::relative_l2;

/// The first frames of a tensor.
std::vector<float> first_frames(const Golden& tensor, int64_t frames) {
  const int64_t frame = tensor.shape[2] * tensor.shape[3];
  std::vector<float> values;
  for (int64_t c = 0; c < tensor.shape[0]; ++c) {
    const auto channel = tensor.values.begin() + c * tensor.shape[1] * frame;
    values.insert(values.end(), channel, channel + frames * frame);
  }
  return values;
}

/// [frames, pixels, 3] -> [3, frames, pixels].
std::vector<float> channels_first(const std::vector<float>& rgb) {
  std::vector<float> planes(rgb.size());
  const size_t plane = rgb.size() / 3;
  for (size_t i = 0; i < rgb.size(); ++i) planes[i % 3 * plane + i / 3] = rgb[i];
  return planes;
}

/// The inverse.
std::vector<float> channels_last(const std::vector<float>& planes) {
  std::vector<float> rgb(planes.size());
  const size_t plane = planes.size() / 3;
  for (size_t i = 0; i < rgb.size(); ++i) rgb[i] = planes[i % 3 * plane + i / 3];
  return rgb;
}

class VaeGolden : public testing::TestWithParam<const char*> {
 protected:
  VaeGolden()
      : folder_(kGolden / GetParam()),
        config_(parse_vae_config(runtime::read_json_object(folder_ / "config.json").value(),
                                 "config.json", ignored_)
                    .value()),
        checkpoint_(io::Checkpoint::open(folder_).value()),
        expected_(io::SafetensorsFile::open(folder_ / "expected.safetensors").value()) {}

  Golden golden(const std::string& name) const { return test::golden_tensor(expected_, name); }

  std::unique_ptr<Model> model(Half half) {
    return cpu::make_model(find_weights(config_, half, checkpoint_, report_).value()).value();
  }

  std::vector<float> decode_frames(int64_t frames, Split split) {
    const Golden latents = golden("latents");
    const std::vector<float> values = first_frames(latents, frames);
    std::vector<float> rgb;
    const auto keep = [&](const FrameChunk& chunk) -> Status {
      EXPECT_EQ(chunk.first * chunk.height * chunk.width * 3, std::ssize(rgb));
      EXPECT_EQ(std::ssize(chunk.rgb), chunk.num_frames * chunk.height * chunk.width * 3);
      rgb.insert(rgb.end(), chunk.rgb.begin(), chunk.rgb.end());
      return {};
    };
    throw_if_error(decode({.latents = values.data(),
                           .frames = frames,
                           .height = latents.shape[2],
                           .width = latents.shape[3],
                           .split = split,
                           .on_frames = keep,
                           .control = {}},
                          *model(Half::kDecoder)));
    return channels_first(rgb);
  }

  std::vector<float> encode_frames(int64_t frames, Split split) {
    const Golden video = golden("frames");
    const Golden latents = golden("encoded");
    const std::vector<float> rgb = channels_last(first_frames(video, frames));
    const int64_t latent_frames = 1 + (frames - 1) / config_.temporal_factor();
    std::vector<float> out(first_frames(latents, latent_frames).size(), std::nanf(""));
    throw_if_error(encode({.rgb = rgb.data(),
                           .frames = frames,
                           .height = video.shape[2],
                           .width = video.shape[3],
                           .split = split,
                           .control = {},
                           .latents = out.data()},
                          *model(Half::kEncoder)));
    return out;
  }

  /// In chunks and stripes of every number.
  template <class Check>
  void for_each_split(const Check& check) {
    const int64_t rows = golden("latents").shape[2];
    for (const int64_t chunk : {1, 2}) {
      for (int64_t stripes = 1; stripes <= rows; ++stripes) {
        SCOPED_TRACE(testing::Message() << "chunk " << chunk << ", stripes " << stripes);
        check(Split{.chunk = chunk, .stripes = stripes});
      }
    }
  }

  std::filesystem::path folder_;
  std::vector<std::string> ignored_;
  VaeConfig config_;
  io::Checkpoint checkpoint_;
  io::SafetensorsFile expected_;
  LoadReport report_;
};

TEST_P(VaeGolden, LoadsEveryTensor) {
  int64_t loaded = 0;
  for (const Half half : {Half::kDecoder, Half::kEncoder}) {
    model(half);
    EXPECT_EQ(report_.naming, "diffusers");
    EXPECT_EQ(report_.summary.unused, std::vector<std::string>{});
    loaded += report_.summary.loaded;
  }
  EXPECT_EQ(loaded, std::ssize(checkpoint_.tensors()));
  EXPECT_EQ(ignored_, std::vector<std::string>{});
}

TEST_P(VaeGolden, R30_Decoder) {
  const Golden want = golden("frames");
  for_each_split([&](Split split) {
    for (int64_t frames = 1; frames <= golden("latents").shape[1]; ++frames) {
      const std::vector<float> got = decode_frames(frames, split);
      const std::vector<float> part = first_frames(want, num_decoded_frames(config_, frames));
      ASSERT_EQ(got.size(), part.size());
      EXPECT_LT(relative_l2(got, part), kRelativeL2) << frames << " latent frames";
    }
  });
}

TEST_P(VaeGolden, R30_Encoder) {
  const Golden want = golden("encoded");
  for_each_split([&](Split split) {
    for (int64_t frames = 1; frames <= want.shape[1]; ++frames) {
      const std::vector<float> got = encode_frames(num_decoded_frames(config_, frames), split);
      EXPECT_LT(relative_l2(got, first_frames(want, frames)), kRelativeL2)
          << frames << " latent frames";
    }
  });
}

TEST_P(VaeGolden, TheComparisonCanFail) {
  // A frame decoded alone is another one than in its video, and frames differ.
  const Golden frames = golden("frames");
  const int64_t size = frames.shape[2] * frames.shape[3];
  const auto frame = [&](int64_t i) {
    return std::span(frames.values)
        .subspan(static_cast<size_t>(i * size), static_cast<size_t>(size));
  };
  EXPECT_GT(relative_l2(frame(1), frame(0)), 1e-2);
  EXPECT_LT(std::ranges::count_if(frames.values, [](float v) { return std::abs(v) == 1.0F; }),
            std::ssize(frames.values) / 4);  // few are clamped
}

INSTANTIATE_TEST_SUITE_P(Models, VaeGolden, testing::Values("wan-vae-tiny", "wan-vae-uneven"),
                         [](const auto& model) {
                           return std::string(model.param).substr(std::string("wan-vae-").size());
                         });

}  // namespace
}  // namespace vsa::vae
