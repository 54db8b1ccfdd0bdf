// The latents file: everything comes back, and wrong files are refused.
#include "runtime/latents.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "runtime/io/safetensors_writer.h"
#include "runtime/pipeline.h"
#include "tests/runtime_support/arrays.h"
#include "tests/unit/runtime/io/files.h"

namespace vsa::runtime {
namespace {

Latents sample() {
  Latents latents{.values = nn::Buffer(3 * 2 * 4 * 6),
                  .shape = {3, 2, 4, 6},
                  .model = "m",
                  .transformer_sha256 = "abc",
                  .prompt = "a \u6F22 \"star\"",
                  .negative_prompt = "",
                  .seed = 123456789012345,
                  .steps = 7,
                  .steps_done = 5,
                  .guidance = 3.1,
                  .shift = 2.0,
                  .fps = 8.0,
                  .attention = "vsa",
                  .topk = 8,
                  .made_by = "{\"seed\":1}"};
  const std::vector<float> values = test::normal_f32(latents.values.size(), 1);
  std::ranges::copy(values, latents.values.data());
  return latents;
}

class LatentsFile : public testing::Test {
 protected:
  std::string refused(const Latents& latents) {
    throw_if_error(save_latents(path_, latents).status());
    return decode({.latents = path_}).status().message();
  }
  test::ScratchDirectory folder_;
  std::filesystem::path path_ = folder_ / "latents.safetensors";
};

TEST_F(LatentsFile, ComesBackWhole) {
  const Latents saved = sample();
  ASSERT_TRUE(save_latents(path_, saved).ok());
  const Latents read = load_latents(path_).value();
  EXPECT_TRUE(std::ranges::equal(read.values.span(), saved.values.span()));
  EXPECT_EQ(read.shape, saved.shape);
  EXPECT_EQ(read.prompt, saved.prompt);
  EXPECT_EQ(read.seed, saved.seed);
  EXPECT_EQ(read.steps_done, 5);
  EXPECT_EQ(read.guidance, 3.1);
  EXPECT_EQ(read.topk, 8);
  EXPECT_EQ(read.made_by, saved.made_by);
  EXPECT_EQ(decode({.latents = path_}).value().metadata.comment, saved.made_by);
}

TEST_F(LatentsFile, W20_PixelsAreClampedAndTruncated) {
  Latents latents = sample();
  const float values[] = {-1.0F, 1.0F, -3.0F, 3.0F, 0.0F, 0.999F};
  std::ranges::copy(values, latents.values.data());
  throw_if_error(save_latents(path_, latents).status());
  const video::Frames frames = decode({.latents = path_}).value().frames;
  const int want[] = {0, 255, 0, 255, 127, 254};  // 127.5 and 254.87 are cut, not rounded
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(frames.rgb[3 * i], want[i]) << i;
  // Channel 1 of the first pixel lies one channel on.
  const float green = latents.values.data()[2 * 4 * 6];
  EXPECT_EQ(frames.rgb[1], static_cast<int>(std::clamp((green / 2 + 0.5F) * 255, 0.0F, 255.0F)));
}

TEST_F(LatentsFile, WrongFilesAreRefused) {
  EXPECT_EQ(decode({.latents = folder_ / "none"}).status().code(), StatusCode::kIoError);
  test::write_text(path_, "not safetensors");
  EXPECT_EQ(decode({.latents = path_}).status().code(), StatusCode::kIoError);

  Latents latents = sample();
  latents.values.data()[17] = std::nanf("");
  EXPECT_THAT(refused(latents), testing::HasSubstr("expected finite values"));
  for (const int64_t done : {int64_t{-1}, sample().steps + 1}) {
    latents = sample();
    latents.steps_done = done;
    EXPECT_THAT(refused(latents), testing::HasSubstr("vsa.steps_done: expected 0 to vsa.steps"));
  }
  for (const double fps : {0.0, -8.0, 1000.5, std::nan(""), HUGE_VAL}) {
    latents = sample();
    latents.fps = fps;
    EXPECT_THAT(refused(latents), testing::HasSubstr("vsa.fps: expected more than 0")) << fps;
  }
  latents = sample();
  latents.shape = {6, 2, 4, 3};
  EXPECT_THAT(refused(latents), testing::HasSubstr("got 6 channels in pixel space"));
  latents = sample();
  latents.space = "wan-vae";
  EXPECT_THAT(refused(latents), testing::HasSubstr("got no such directory"));
  latents.model.clear();
  EXPECT_THAT(refused(latents), testing::HasSubstr("--model says where its VAE is"));
  latents.space = "flux";
  EXPECT_THAT(refused(latents), testing::HasSubstr("channels in flux space"));
  latents = sample();
  latents.shape = {3, 48};
  EXPECT_THAT(refused(latents), testing::HasSubstr("expected F32 [channels,frames,height,width]"));
}

TEST_F(LatentsFile, FilesOfOthersAreRefused) {
  const std::vector<float> values(3 * 2 * 2 * 2);
  const io::TensorView view{.shape = {3, 2, 2, 2}, .bytes = std::as_bytes(std::span(values))};
  throw_if_error(io::write_safetensors(path_, {{"latents", view}}));
  EXPECT_THAT(decode({.latents = path_}).status().message(),
              testing::HasSubstr("not a latents file of vsa?"));
  throw_if_error(io::write_safetensors(path_, {{"x", view}}));
  EXPECT_THAT(decode({.latents = path_}).status().message(),
              testing::HasSubstr("expected a tensor, got none"));
}

}  // namespace
}  // namespace vsa::runtime
