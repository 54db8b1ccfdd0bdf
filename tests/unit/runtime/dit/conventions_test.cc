// Conventions of Wan's transformer that are easily got wrong, each on a model in which the wrong
// one shows by itself (docs/reference/testing.md, W02 to W06).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "runtime/dit/cpu/model.h"
#include "runtime/dit/transformer.h"
#include "tests/runtime_support/arrays.h"
#include "tests/runtime_support/tiny_model.h"
#include "tests/support/compare.h"
#include "tests/unit/runtime/io/files.h"

namespace vsa::dit {
namespace {

constexpr Grid kGrid{2, 3, 2};
constexpr int64_t kWidth = 32, kFreq = 16, kTextDim = 24, kPatch = 3 * 2 * 4 * 4;
// Rounding of a pass through three layers is near 1e-6; what these tests tell apart is above 1e-3.
constexpr double kSame = 1e-5, kOther = 1e-3;

class Conventions : public testing::Test {
 protected:
  /// [3, 4, 12, 8].
  const std::vector<float> latents_ = test::normal_f32(kGrid.num_tokens() * kPatch, 9);

  std::vector<float> predict(const test::TinyModel& model, float timestep,
                             const text::TextEmbedding& text) {
    model.write(folder_.path());
    const auto checkpoint = io::Checkpoint::open(folder_ / "transformer").value();
    std::vector<std::string> ignored;
    const WanConfig config = parse_wan_config(model.transformer_config, "c", ignored).value();
    LoadReport report;
    const auto transformer =
        cpu::make_model(find_weights(config, checkpoint, report).value(), Context{}).value();
    const TilePlan plan = TilePlan::grid(kGrid, {4, 4, 4}).value();
    const auto steps = transformer->make_steps(kGrid, plan).value();
    const auto context = transformer->prepare_text(text).value();
    const std::vector<int64_t> topk(3, plan.num_tiles());
    std::vector<float> velocity(latents_.size());
    throw_if_error(forward({.latents = latents_.data(),
                            .timestep = timestep,
                            .text = context.get(),
                            .topk = topk,
                            .on_layer = {},
                            .velocity = velocity.data()},
                           *steps, {}));
    return velocity;
  }
  std::vector<float> predict(const test::TinyModel& model, float timestep = 500.0F) {
    return predict(model, timestep, text(3, 3));
  }

  /// Rows of random numbers up to `num_valid`, and zeros.
  static text::TextEmbedding text(int64_t num_valid, int64_t num_rows) {
    text::TextEmbedding text{
        .rows = nn::Buffer(num_rows * kTextDim), .num_rows = num_rows, .num_valid = num_valid};
    std::fill_n(text.rows.data(), text.rows.size(), 0.0F);
    std::ranges::copy(test::normal_f32(std::min<int64_t>(num_valid, 3) * kTextDim, 8),
                      text.rows.data());
    return text;
  }

  static double distance(const std::vector<float>& got, const std::vector<float>& want) {
    const auto flat = [](const std::vector<float>& x) {
      return ConstTensor::bhsd(x.data(), DType::kF32, {.seq_len = 1, .head_dim = std::ssize(x)});
    };
    return test::relative_l2(flat(got), flat(want));
  }

  test::ScratchDirectory folder_;
};

/// Sets every number of a tensor.
void fill(test::TinyModel& model, const std::string& tensor, float value) {
  std::ranges::fill(model.transformer.at(tensor).values, value);
}

/// y = weight x + bias in f64.
std::vector<double> linear(const test::TinyModel& model, const std::string& name,
                           const std::vector<double>& x) {
  const auto& weight = model.transformer.at(name + ".weight").values;
  const auto& bias = model.transformer.at(name + ".bias").values;
  std::vector<double> y(bias.begin(), bias.end());
  for (size_t o = 0; o < y.size(); ++o) {
    for (size_t i = 0; i < x.size(); ++i) y[o] += weight[o * x.size() + i] * x[i];
  }
  return y;
}

/// The embedding of a timestep as the head reads it: cosines first, then the two layers.
std::vector<double> embedded_timestep(const test::TinyModel& model, double timestep) {
  std::vector<double> waves(kFreq);
  for (size_t j = 0; j < kFreq / 2; ++j) {
    const double phase = timestep * std::pow(1e4, -static_cast<double>(j) / (kFreq / 2));
    waves[j] = std::cos(phase);
    waves[j + kFreq / 2] = std::sin(phase);
  }
  std::vector<double> hidden = linear(model, "condition_embedder.time_embedder.linear_1", waves);
  for (double& h : hidden) h /= 1.0 + std::exp(-h);
  return linear(model, "condition_embedder.time_embedder.linear_2", hidden);
}

/// Layers that add nothing: no gate, and no output of the attention to text.
void silence_layers(test::TinyModel& model) {
  for (const std::string layer : {"blocks.0.", "blocks.1.", "blocks.2."}) {
    auto& table = model.transformer.at(layer + "scale_shift_table").values;
    std::fill_n(table.begin() + 2 * kWidth, kWidth, 0.0F);
    std::fill_n(table.begin() + 5 * kWidth, kWidth, 0.0F);
    fill(model, layer + "attn2.to_out.0.weight", 0.0F);
    fill(model, layer + "attn2.to_out.0.bias", 0.0F);
  }
  fill(model, "condition_embedder.time_proj.weight", 0.0F);
  fill(model, "condition_embedder.time_proj.bias", 0.0F);
}

/// What the head makes of one embedded patch.
std::vector<double> head(const test::TinyModel& model, std::vector<double> x,
                         const std::vector<double>& time) {
  double mean = 0.0, square = 0.0;
  for (const double v : x) mean += v / kWidth;
  for (const double v : x) square += (v - mean) * (v - mean) / kWidth;
  const auto& table = model.transformer.at("scale_shift_table").values;  // shift, then scale
  for (size_t i = 0; i < kWidth; ++i) {
    x[i] = (x[i] - mean) / std::sqrt(square + 1e-6) * (1.0 + table[kWidth + i] + time[i]) +
           table[i] + time[i];
  }
  return linear(model, "proj_out", x);
}

TEST_F(Conventions, W02_W04_TheHeadReadsTheTimestepItselfNotItsProjection) {
  test::TinyModel model;
  silence_layers(model);
  constexpr float kTimestep = 731.0F;
  const std::vector<float> got = predict(model, kTimestep);
  const std::vector<double> time = embedded_timestep(model, kTimestep);
  std::vector<float> want(got.size());
  for (int64_t token = 0; token < kGrid.num_tokens(); ++token) {
    const int64_t f = token / 6, h = token / 2 % 3, w = token % 2;
    const auto at = [&](int64_t channel, int64_t i) {  // of a patch: [2, 4, 4]
      return static_cast<size_t>(((channel * 4 + 2 * f + i / 16) * 12 + 4 * h + i / 4 % 4) * 8 +
                                 4 * w + i % 4);
    };
    std::vector<double> patch;
    for (int64_t c = 0; c < 3; ++c) {
      for (int64_t i = 0; i < 32; ++i) patch.push_back(latents_[at(c, i)]);
    }
    const std::vector<double> out = head(model, linear(model, "patch_embedding", patch), time);
    for (int64_t i = 0; i < 32; ++i) {
      for (int64_t c = 0; c < 3; ++c) {
        want[at(c, i)] = static_cast<float>(out[static_cast<size_t>(i * 3 + c)]);
      }
    }
  }
  EXPECT_LT(distance(got, want), kSame);
}

TEST_F(Conventions, W03_QueriesAndKeysAreNormedOverAllHeads) {
  // Under a norm over all heads, a factor for all rows drops out, and one for the first head's rows
  // does not; under a norm of each head both would.
  for (const std::string projection : {"attn1.to_q", "attn1.to_k", "attn2.to_q", "attn2.to_k"}) {
    const test::TinyModel plain;
    const std::vector<float> want = predict(plain);
    const auto scaled = [&](int64_t rows) {
      test::TinyModel model = plain;
      for (const char* part : {".weight", ".bias"}) {
        auto& values = model.transformer.at("blocks.1." + projection + part).values;
        const int64_t numbers = rows * std::ssize(values) / kWidth;
        for (int64_t i = 0; i < numbers; ++i) values[static_cast<size_t>(i)] *= 4.0F;
      }
      return predict(model);
    };
    EXPECT_LT(distance(scaled(kWidth), want), kSame) << projection;
    EXPECT_GT(distance(scaled(kWidth / 2), want), kOther) << projection;
  }
}

TEST_F(Conventions, W06_PaddingOfTheTextIsAttendedTo) {
  const test::TinyModel model;
  const std::vector<float> padded = predict(model, 500.0F, text(3, 20));
  // Computed once for all rows of padding, as if every row were one of text.
  EXPECT_LT(distance(padded, predict(model, 500.0F, text(20, 20))), kSame);
  EXPECT_GT(distance(padded, predict(model, 500.0F, text(3, 3))), kOther);
  EXPECT_GT(distance(padded, predict(model, 500.0F, text(3, 4))), kOther);
}

TEST_F(Conventions, W14_WithoutGatesTheFineStageIsAlone) {
  // As zero gates give; gates of one, which a missing gate is for the operator, give something
  // else.
  const std::vector<float> bare = predict(test::TinyModel(1, /*gates=*/false));
  const auto gated = [&](float bias) {
    test::TinyModel model(1, /*gates=*/false);
    for (const std::string layer : {"blocks.0.", "blocks.1.", "blocks.2."}) {
      model.transformer[layer + "to_gate_compress.weight"] = {
          {kWidth, kWidth}, std::vector<float>(kWidth * kWidth, 0.0F)};
      model.transformer[layer + "to_gate_compress.bias"] = {{kWidth},
                                                            std::vector<float>(kWidth, bias)};
    }
    return predict(model);
  };
  EXPECT_LT(distance(gated(0.0F), bare), kSame);
  EXPECT_GT(distance(gated(1.0F), bare), kOther);
}

}  // namespace
}  // namespace vsa::dit
