// The VAE's decoder on a card, in bf16, beside the CPU's in f32.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>

#include "runtime/vae/cpu/model.h"
#include "runtime/vae/decoder.h"
#include "runtime/vae/device/memory_needed.h"
#include "runtime/vae/device/model.h"
#include "tests/gpu_runtime/card.h"
#include "tests/runtime_support/arrays.h"
#include "tests/runtime_support/random_vae.h"

namespace vsa::test {
namespace {

using vae::Order;
using vae::Split;

/// 10 log10(peak^2 / mean squared error); the values are in [-1, 1], so the peak is 2.
double psnr_db(const std::vector<float>& got, const std::vector<float>& want) {
  double squares = 0.0;
  for (size_t i = 0; i < want.size(); ++i) {
    squares += std::pow(static_cast<double>(got[i]) - static_cast<double>(want[i]), 2.0);
  }
  return 10.0 * std::log10(4.0 * static_cast<double>(want.size()) / squares);
}

/// Latents of one size, and what decodes them.
struct Video {
  int64_t frames, height, width;
  std::vector<float> latents = normal_f32(16 * frames * height * width, 3);

  std::vector<float> decoded(vae::Model& model, Split split = {}) const {
    std::vector<float> rgb;
    throw_if_error(vae::decode({.latents = latents.data(),
                                .frames = frames,
                                .height = height,
                                .width = width,
                                .split = split,
                                .on_frames = [&](const vae::FrameChunk& chunk) -> Status {
                                  if (rgb.empty())
                                    rgb.reserve(static_cast<size_t>(frames) * 4 * chunk.rgb.size());
                                  rgb.insert(rgb.end(), chunk.rgb.begin(), chunk.rgb.end());
                                  return {};
                                },
                                .control = {}},
                               model));
    return rgb;
  }
};

class GpuVae : public testing::Test {
 protected:
  void load(const vae::VaeConfig& config) {
    random_.emplace(config);
    memory_ = device::Memory::of(BackendId::kCuda).value();
    there_ = vae::device::DeviceModel::load(random_->weights(vae::Half::kDecoder), memory_).value();
  }
  std::unique_ptr<vae::Model> here() const {
    return vae::cpu::make_model(random_->weights(vae::Half::kDecoder)).value();
  }

  std::optional<RandomVae> random_;
  std::shared_ptr<device::Memory> memory_;
  std::unique_ptr<vae::Model> there_;
};

/// Every structure of the published model, with 6 times fewer channels.
vae::VaeConfig small() {
  vae::VaeConfig config;
  config.base_dim = 16;
  return config;
}

TEST_F(GpuVae, FramesAreThoseOfTheCpu) {
  VSA_NEEDS_CARD("cuBLAS", "cuDNN");
  load(small());
  const Video video{4, 10, 14};
  const std::vector<float> want = video.decoded(*here());
  const std::vector<float> got = video.decoded(*there_);
  ASSERT_EQ(got.size(), want.size());
  const double psnr = psnr_db(got, want);
  RecordProperty("psnr_db", std::to_string(psnr));
  RecordProperty("relative_l2", std::to_string(relative_l2(got, want)));
  EXPECT_GT(psnr, 45.0);
}

TEST_F(GpuVae, ChunksAndStripesGiveTheWholesFrames) {
  VSA_NEEDS_CARD("cuBLAS", "cuDNN");
  load(small());
  const Video video{4, 10, 14};
  const std::vector<float> whole = video.decoded(*there_);
  EXPECT_EQ(video.decoded(*there_), whole) << "not the same bytes";
  for (const Split split : {Split{.chunk = 3}, Split{.stripes = 3},
                            Split{.chunk = 2, .stripes = 2, .order = Order::kStripes}}) {
    const double psnr = psnr_db(video.decoded(*there_, split), whole);
    RecordProperty("psnr_db", std::to_string(psnr));
    EXPECT_GT(psnr, 60.0) << split.chunk << " latent frames, " << split.stripes << " stripes";
  }
}

/// The published model's channels, on small frames.
TEST_F(GpuVae, WithTheChannelsOfWan) {
  VSA_NEEDS_CARD("cuBLAS", "cuDNN");
  load({});
  const Video video{2, 6, 10};
  const std::vector<float> want = video.decoded(*here());
  const std::vector<float> got = video.decoded(*there_, {.chunk = 1});
  const double psnr = psnr_db(got, want);
  RecordProperty("psnr_db", std::to_string(psnr));
  EXPECT_GT(psnr, 45.0);
}

/// 81 frames of 480x832 with random weights: memory is what was counted. The time is printed.
TEST_F(GpuVae, TheSizeOfWanTakesTheMemoryThatWasCounted) {
  VSA_NEEDS_CARD("cuBLAS", "cuDNN");
  const vae::VaeConfig wan;
  load(wan);
  const Video video{21, 60, 104};
  const vae::device::LatentSize size{.frames = 21, .height = 60, .width = 104};
  const int64_t before = memory_->available_bytes().value();
  const Split split = vae::device::choose_split(wan, size, before, DType::kBF16);
  video.decoded(*there_, split);  // plans are made, kernels are loaded
  const int64_t counted = vae::device::memory_needed_bytes(wan, size, split, DType::kBF16);
  EXPECT_NEAR(static_cast<double>(memory_->most_bytes_taken()), static_cast<double>(counted),
              0.1 * static_cast<double>(counted));
  const auto start = std::chrono::steady_clock::now();
  const std::vector<float> first = video.decoded(*there_, split);
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  std::printf("81 frames of 480x832: %.3f s, %lld latent frames at a time, %.2f GiB\n",
              passed.count(), static_cast<long long>(split.chunk),
              static_cast<double>(memory_->most_bytes_taken()) / (1 << 30));
  device::CallTimes times;
  memory_->measure_calls(&times);
  EXPECT_EQ(video.decoded(*there_, split), first) << "not the same bytes";
  memory_->measure_calls(nullptr);
  for (const auto& [kind, time] : times) {
    std::printf("  %-12s %5lld calls %8.1f ms\n", kind.c_str(), static_cast<long long>(time.calls),
                time.ms);
  }
}

}  // namespace
}  // namespace vsa::test
