// The VAE's memory is what is said ahead; and the VAE of true size runs.
#include "runtime/vae/cpu/memory.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "runtime/nn/parallel.h"
#include "runtime/vae/cpu/model.h"
#include "runtime/vae/decoder.h"
#include "runtime/vae/encoder.h"
#include "tests/runtime_support/arrays.h"
#include "tests/runtime_support/process_memory.h"
#include "tests/runtime_support/random_vae.h"
#include "vsa/backend.h"

namespace vsa::vae {
namespace {

struct Case {
  int64_t base_dim;
  cpu::LatentSize size;
  Split split;
};

VaeConfig with_base(int64_t base_dim) {
  VaeConfig config;
  config.base_dim = base_dim;
  return config;
}

class VaeMemory : public testing::TestWithParam<Case> {};

std::optional<std::string> why_not() {
  if (*cpu_isa() == "baseline") return "oneDNN copies inputs there";
  return test::why_memory_is_not_measured();
}

/// Within a tenth.
void expect_predicted(int64_t peak, int64_t predicted) {
  SCOPED_TRACE(testing::Message() << peak << " bytes, predicted " << predicted);
  EXPECT_GT(static_cast<double>(peak), 0.9 * static_cast<double>(predicted));
  EXPECT_LT(static_cast<double>(peak), 1.1 * static_cast<double>(predicted));
}

TEST_P(VaeMemory, DecodingTakesWhatIsSaid) {
  if (const auto why = why_not()) GTEST_SKIP() << *why;
  const auto& [base_dim, size, split] = GetParam();
  const VaeConfig config = with_base(base_dim);
  const test::RandomVae random(config);
  const std::vector<float> latents =
      test::normal_f32(16 * size.frames * size.height * size.width, 1);
  const int64_t before = test::restart_peak_memory();
  const auto model = cpu::make_model(random.weights(Half::kDecoder)).value();
  int64_t frames = 0;
  throw_if_error(decode({.latents = latents.data(),
                         .frames = size.frames,
                         .height = size.height,
                         .width = size.width,
                         .split = split,
                         .on_frames = [&](const FrameChunk& chunk) -> Status {
                           frames += chunk.num_frames;
                           return {};
                         },
                         .control = {}},
                        *model));
  EXPECT_EQ(frames, 1 + 4 * (size.frames - 1));
  expect_predicted(test::process_memory("VmHWM") - before,
                   cpu::decode_memory_bytes(config, size, split, nn::num_threads()));
}

TEST_P(VaeMemory, EncodingTakesWhatIsSaid) {
  if (const auto why = why_not()) GTEST_SKIP() << *why;
  const auto& [base_dim, size, split] = GetParam();
  const VaeConfig config = with_base(base_dim);
  const test::RandomVae random(config);
  const int64_t frames = 1 + 4 * (size.frames - 1);
  const std::vector<float> rgb = test::normal_f32(frames * 64 * size.height * size.width * 3, 1);
  std::vector<float> latents(static_cast<size_t>(16 * size.frames * size.height * size.width));
  const int64_t before = test::restart_peak_memory();
  const auto model = cpu::make_model(random.weights(Half::kEncoder)).value();
  throw_if_error(encode({.rgb = rgb.data(),
                         .frames = frames,
                         .height = 8 * size.height,
                         .width = 8 * size.width,
                         .split = split,
                         .control = {},
                         .latents = latents.data()},
                        *model));
  expect_predicted(test::process_memory("VmHWM") - before,
                   cpu::encode_memory_bytes(config, size, split, nn::num_threads()));
}

// The true model, whose weights are nearly all of it here; and a narrow one with more pixels.
constexpr cpu::LatentSize kOne{.frames = 1, .height = 4, .width = 4};
constexpr cpu::LatentSize kTwo{.frames = 2, .height = 24, .width = 28};
constexpr cpu::LatentSize kThree{.frames = 3, .height = 24, .width = 24};
INSTANTIATE_TEST_SUITE_P(
    Sizes, VaeMemory,
    testing::Values(Case{96, kOne, {}}, Case{24, kTwo, {}},
                    Case{24, kTwo, {.chunk = 1, .stripes = 3}},
                    Case{24, kThree, {.chunk = 2, .stripes = 4, .order = Order::kStripes}}));

TEST(VaeMemoryPlan, TheFirstThatFitsIsChosen) {
  const VaeConfig config;
  const cpu::LatentSize size{.frames = 21, .height = 60, .width = 104};
  const auto bytes = [&](Split split) { return cpu::decode_memory_bytes(config, size, split, 16); };
  const auto chosen = [&](int64_t limit) { return cpu::choose_split(config, size, limit, 16); };
  // A longer video takes no more.
  EXPECT_EQ(cpu::decode_memory_bytes(config, {.frames = 2, .height = 60, .width = 104}, {}, 16),
            bytes({}));
  EXPECT_EQ(chosen(bytes({})).stripes, 1);
  // One byte less: two stripes, chunk by chunk.
  EXPECT_EQ(chosen(bytes({}) - 1).stripes, 2);
  EXPECT_EQ(chosen(bytes({}) - 1).order, Order::kFrames);
  // Much less: a stripe at a time.
  const Split small = chosen(bytes({}) / 2);
  EXPECT_EQ(small.order, Order::kStripes);
  EXPECT_GT(small.stripes, 1);
  EXPECT_LE(bytes(small), bytes({}) / 2);
  EXPECT_GT(bytes({.chunk = 1, .stripes = small.stripes - 1, .order = Order::kStripes}),
            bytes({}) / 2);
  // Nothing fits: what takes least.
  const int64_t least = bytes(chosen(1));
  for (const Order order : {Order::kFrames, Order::kStripes}) {
    for (int64_t stripes = 1; stripes <= 60; ++stripes) {
      EXPECT_LE(least, bytes({.chunk = 1, .stripes = stripes, .order = order}));
    }
  }
}

}  // namespace
}  // namespace vsa::vae
