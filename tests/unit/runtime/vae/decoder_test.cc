// Decoding and encoding: stripes and chunks give the whole's values; faults are told by name.
#include "runtime/vae/decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <deque>
#include <optional>

#include "runtime/nn/parallel.h"
#include "runtime/vae/cpu/model.h"
#include "runtime/vae/encoder.h"
#include "tests/runtime_support/arrays.h"
#include "tests/runtime_support/random_vae.h"

namespace vsa::vae {
namespace {

using testing::HasSubstr;

/// Every structure of the published model, with 16 times fewer channels.
VaeConfig small() {
  VaeConfig config;
  config.base_dim = 6;
  return config;
}

constexpr int64_t kFrames = 4, kHeight = 6, kWidth = 5;  // of latents

class Vae : public testing::Test {
 protected:
  DecodeArgs decode_args(Split split = {}) {
    return {.latents = latents_.data(),
            .frames = kFrames,
            .height = kHeight,
            .width = kWidth,
            .split = split,
            .on_frames = [this](const FrameChunk& chunk) -> Status {
              rgb_.insert(rgb_.end(), chunk.rgb.begin(), chunk.rgb.end());
              chunks_.push_back({chunk.first, chunk.num_frames});
              return {};
            },
            .control = {}};
  }
  std::vector<float> decoded(Split split) {
    rgb_.clear();
    chunks_.clear();
    const auto model = cpu::make_model(random_.weights(Half::kDecoder)).value();
    throw_if_error(decode(decode_args(split), *model));
    return rgb_;
  }
  std::vector<float> encoded(Split split) {
    const auto model = cpu::make_model(random_.weights(Half::kEncoder)).value();
    std::vector<float> out(latents_.size(), std::nanf(""));
    throw_if_error(encode({.rgb = video_.data(),
                           .frames = 13,
                           .height = 8 * kHeight,
                           .width = 8 * kWidth,
                           .split = split,
                           .control = {},
                           .latents = out.data()},
                          *model));
    return out;
  }

  test::RandomVae random_{small()};
  std::vector<float> latents_ = test::normal_f32(16 * kFrames * kHeight * kWidth, 3);
  std::vector<float> video_ = test::normal_f32(3 * 13 * 64 * kHeight * kWidth, 4);
  std::vector<float> rgb_;
  std::vector<std::pair<int64_t, int64_t>> chunks_;  // first frame, frames
};

/// |got - want| / |want| over all.
double distance(const std::vector<float>& got, const std::vector<float>& want) {
  const auto flat = [](const std::vector<float>& x) {
    return ConstTensor::bhsd(x.data(), DType::kF32, {.seq_len = 1, .head_dim = std::ssize(x)});
  };
  return got.size() == want.size() ? test::relative_l2(flat(got), flat(want)) : HUGE_VAL;
}

// A stripe reads the numbers that the whole reads. With AVX-512 and without AVX the values are the
// same bits; with AVX2 oneDNN adds them up in another order for another size, which is a few
// roundings of 6e-8. A wrong row is off by more than 1e-2.
constexpr double kRounding = 1e-6;

TEST_F(Vae, R06_StripesAndChunksDecodeToTheWhole) {
  const std::vector<float> whole = decoded({});
  EXPECT_EQ(std::ssize(whole), 3 * 13 * 64 * kHeight * kWidth);
  for (const Split& split :
       {Split{.chunk = 1, .stripes = 2}, Split{1, 4, Order::kStripes},
        Split{.chunk = 2, .stripes = 1}, Split{2, 3, Order::kFrames}, Split{2, 3, Order::kStripes},
        Split{.chunk = 3, .stripes = 6}, Split{.chunk = 5, .stripes = 1}}) {
    EXPECT_LT(distance(decoded(split), whole), kRounding)
        << split.chunk << " " << split.stripes << " " << static_cast<int>(split.order);
  }
}

TEST_F(Vae, R05_StripesAndChunksEncodeToTheWhole) {
  const std::vector<float> whole = encoded({});
  for (const Split& split : {Split{.chunk = 1, .stripes = 2}, Split{.chunk = 2, .stripes = 1},
                             Split{.chunk = 2, .stripes = 3}, Split{.chunk = 3, .stripes = 6}}) {
    EXPECT_LT(distance(encoded(split), whole), kRounding) << split.chunk << " " << split.stripes;
  }
}

TEST_F(Vae, W10_TheConvolutionOverTimeSkipsTheFirstChunkAndSeesZerosInTheSecond) {
  // All other convolutions forget the past, so only that of the upsamplers connects latent frames.
  VaeWeights weights = random_.weights(Half::kDecoder);
  std::deque<std::vector<float>> kept;
  const auto forget_past = [&](nn::Weight& weight) {
    if (weight.shape.size() != 5) return;
    std::vector<float>& numbers = kept.emplace_back(weight.bytes.size() / sizeof(float));
    std::memcpy(numbers.data(), weight.bytes.data(), weight.bytes.size());
    for (size_t i = 0; i < numbers.size(); ++i) {
      if (i % 27 < 18) numbers[i] = 0.0F;  // [.., 3, 3, 3]: the last frame's 9 stay
    }
    weight.bytes = std::as_bytes(std::span(numbers));
  };
  for (size_t i = 0; i < weights.layers.size(); ++i) {
    forget_past(weights.layers[i].conv.weight);
    if (!weights.network.layers[i].temporal) forget_past(weights.layers[i].conv2.weight);
  }
  const auto decoded_with = [&](int64_t changed, float time_scale) {
    for (size_t i = 0; i < weights.layers.size(); ++i) {
      if (weights.network.layers[i].temporal) weights.layers[i].conv2.weight.scale = time_scale;
    }
    std::vector<float> before = latents_;
    const int64_t pixels = kHeight * kWidth;
    for (int64_t c = 0; c < 16 && changed >= 0; ++c) {
      std::fill_n(latents_.begin() + (c * kFrames + changed) * pixels, pixels, 0.5F);
    }
    rgb_.clear();
    throw_if_error(decode(decode_args(), *cpu::make_model(weights).value()));
    latents_ = std::move(before);
    return rgb_;
  };
  const std::vector<float> plain = decoded_with(-1, 0.05F);
  const auto changes = [&](const std::vector<float>& other, int64_t first, int64_t frames) {
    constexpr int64_t kFrame = 3 * 64 * kHeight * kWidth;
    return !std::equal(plain.begin() + first * kFrame, plain.begin() + (first + frames) * kFrame,
                       other.begin() + first * kFrame);
  };
  const std::vector<float> of_first = decoded_with(0, 0.05F);
  EXPECT_TRUE(changes(of_first, 0, 1));
  EXPECT_FALSE(changes(of_first, 1, 12));  // zeros stand for it in the second chunk
  const std::vector<float> of_second = decoded_with(1, 0.05F);
  EXPECT_TRUE(changes(of_second, 1, 4));
  EXPECT_TRUE(changes(of_second, 5, 4));  // from the third on, history is what was there
  const std::vector<float> otherwise = decoded_with(-1, 0.2F);
  EXPECT_FALSE(changes(otherwise, 0, 1));
  EXPECT_TRUE(changes(otherwise, 1, 4));
}

TEST_F(Vae, FramesComeInOrderChunkByChunk) {
  using Chunks = std::vector<std::pair<int64_t, int64_t>>;
  decoded({});
  EXPECT_EQ(chunks_, (Chunks{{0, 1}, {1, 4}, {5, 4}, {9, 4}}));
  decoded({.chunk = 2, .stripes = 2});
  EXPECT_EQ(chunks_, (Chunks{{0, 1}, {1, 8}, {9, 4}}));
  decoded({.chunk = 2, .stripes = 2, .order = Order::kStripes});
  EXPECT_EQ(chunks_, (Chunks{{0, 1}, {1, 8}, {9, 4}}));
  decoded({.chunk = 9, .stripes = 1});
  EXPECT_EQ(chunks_, (Chunks{{0, 1}, {1, 12}}));
}

TEST_F(Vae, IsTheSameWithAnyNumberOfThreads) {
  std::vector<float> one;
  {
    const nn::ThreadCount threads(1);
    one = decoded({.chunk = 1, .stripes = 2});
  }
  const nn::ThreadCount threads(3);
  EXPECT_EQ(decoded({.chunk = 1, .stripes = 2}), one);
}

TEST_F(Vae, OutputsAreClamped) {
  for (float& v : latents_) v *= 30.0F;
  VaeWeights weights = random_.weights(Half::kDecoder);
  weights.layers.back().conv.weight.scale *= 10.0F;
  const auto model = cpu::make_model(weights).value();
  throw_if_error(decode(decode_args(), *model));
  const auto [least, most] = std::ranges::minmax(rgb_);
  EXPECT_EQ(least, -1.0F);
  EXPECT_EQ(most, 1.0F);
}

TEST_F(Vae, WrongSizesAreNamed) {
  const auto model = cpu::make_model(random_.weights(Half::kDecoder)).value();
  const auto fault = [&](auto change) {
    DecodeArgs args = decode_args();
    change(args);
    const Status status = decode(args, *model);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message();
  };
  EXPECT_THAT(fault([](auto& a) { a.frames = 0; }),
              HasSubstr("frames: expected at least 1, got 0"));
  EXPECT_THAT(fault([](auto& a) { a.width = -3; }), HasSubstr("width: expected at least 1"));
  EXPECT_THAT(fault([](auto& a) { a.split.stripes = 7; }), HasSubstr("stripes: expected 1 to 6"));
  EXPECT_THAT(fault([](auto& a) { a.split.chunk = 0; }), HasSubstr("chunk: expected at least 1"));
  EXPECT_TRUE(rgb_.empty());

  const auto encoder = cpu::make_model(random_.weights(Half::kEncoder)).value();
  const auto encode_fault = [&](auto change) {
    std::vector<float> out(latents_.size());
    EncodeArgs args{.rgb = video_.data(),
                    .frames = 13,
                    .height = 8 * kHeight,
                    .width = 8 * kWidth,
                    .split = {},
                    .control = {},
                    .latents = out.data()};
    change(args);
    const Status status = encode(args, *encoder);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message();
  };
  EXPECT_THAT(encode_fault([](auto& a) { a.frames = 12; }),
              HasSubstr("frames: expected 1 more than a multiple of 4, got 12"));
  EXPECT_THAT(encode_fault([](auto& a) { a.width = 44; }),
              HasSubstr("width: expected a multiple of 8, got 44"));
  EXPECT_THAT(encode_fault([](auto& a) { a.height = 0; }),
              HasSubstr("height: expected a multiple"));
  EXPECT_THAT(encode_fault([](auto& a) { a.split.stripes = 0; }), HasSubstr("stripes: expected 1"));
  video_[100] = std::nanf("");
  EXPECT_THAT(encode_fault([](auto&) {}),
              HasSubstr("rgb: expected finite values, got nan in frame 0"));
}

TEST_F(Vae, NanInLatentsIsRefused) {
  const auto model = cpu::make_model(random_.weights(Half::kDecoder)).value();
  latents_[static_cast<size_t>((2 * kFrames + 3) * kHeight * kWidth + 1)] = std::nanf("");
  const Status status = decode(decode_args(), *model);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(),
              HasSubstr("latents: expected finite values, got nan in channel 2, frame 3"));
  EXPECT_TRUE(rgb_.empty());
}

TEST_F(Vae, NanInWeightsNamesTheLayer) {
  const std::vector<float> nan(1, std::nanf(""));
  for (const int64_t stripes : {1, 3}) {
    VaeWeights weights = random_.weights(Half::kDecoder);
    // A bias of one layer; the first chunk never runs the convolution over time.
    nn::Weight& bias = weights.layers[8].conv2.bias;
    ASSERT_EQ(weights.network.layer(8).name, "decoder.up_blocks.0.upsamplers.0");
    std::vector<float> values(static_cast<size_t>(bias.num_elements()), nan.front());
    bias.bytes = std::as_bytes(std::span(values));
    const auto model = cpu::make_model(weights).value();
    chunks_.clear();
    const Status status = decode(decode_args({.chunk = 1, .stripes = stripes}), *model);
    EXPECT_EQ(status.code(), StatusCode::kInternal);
    EXPECT_THAT(status.message(),
                HasSubstr("[decode] decoder.up_blocks.0.upsamplers.0: expected finite values, got "
                          "NaN or infinity in chunk 1"));
    EXPECT_EQ(chunks_.size(), 1U);  // the first frame was right
  }
}

TEST_F(Vae, StopsWhenItIsToldTo) {
  const auto model = cpu::make_model(random_.weights(Half::kDecoder)).value();
  std::atomic<bool> cancel = false;
  std::optional<int64_t> all;
  int64_t calls = 0;
  DecodeArgs args = decode_args({.chunk = 1, .stripes = 2});
  args.control = {.cancel = &cancel, .on_layer = [&](int64_t done, int64_t of) {
                    EXPECT_EQ(done, ++calls);
                    all = of;
                    if (done == 30) cancel = true;
                  }};
  const Status status = decode(args, *model);
  EXPECT_EQ(status.code(), StatusCode::kCancelled);
  EXPECT_EQ(calls, 30);
  // 5 layers of whole frames, 16 of each stripe, 4 chunks.
  EXPECT_EQ(all, 4 * (5 + 2 * 16));

  const auto refuse = [](const FrameChunk&) { return io_error("disk full"); };
  args = decode_args();
  args.on_frames = refuse;
  EXPECT_EQ(decode(args, *model).message(), "disk full");
}

TEST_F(Vae, VideosDoNotSeeEachOther) {
  const auto model = cpu::make_model(random_.weights(Half::kDecoder)).value();
  throw_if_error(decode(decode_args(), *model));
  const std::vector<float> first = std::move(rgb_);
  rgb_.clear();
  throw_if_error(decode(decode_args(), *model));
  EXPECT_EQ(rgb_, first);
}

}  // namespace
}  // namespace vsa::vae
