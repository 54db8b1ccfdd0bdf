// The text encoder and the transformer against tensors of a PyTorch restatement (README.md here).
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "runtime/dit/cpu/model.h"
#include "runtime/dit/transformer.h"
#include "runtime/json_fields.h"
#include "runtime/model_folder.h"
#include "runtime/text/cpu/umt5_steps.h"
#include "runtime/text/tokenizer.h"
#include "runtime/text/umt5.h"
#include "tests/runtime_support/stored_tensors.h"
#include "tests/support/compare.h"

namespace vsa {
namespace {

const std::filesystem::path kFolder =
    std::filesystem::path(VSA_SOURCE_DIR) / "tests/golden/wan-tiny";
// Both sides sum in f32, in other orders. A few hundred rounded operations of 6e-8 each stay below;
// a wrong convention (norm2 for norm3, sines first, a pair order) is off by more than 1e-2.
constexpr double kRelativeL2 = 1e-5;

/// A tensor of expected.safetensors as f32.
struct Golden {
  std::vector<float> values;
  ConstTensor flat() const { return view(values.data()); }
  ConstTensor view(const float* data) const {
    return ConstTensor::bhsd(data, DType::kF32,
                             {.seq_len = 1, .head_dim = static_cast<int64_t>(values.size())});
  }
};

class WanGolden : public testing::Test {
 protected:
  WanGolden()
      : folder_(runtime::ModelFolder::open(kFolder).value()),
        expected_(io::SafetensorsFile::open(kFolder / "expected.safetensors").value()),
        text_weights_(folder_.open_text_encoder().value()),
        weights_(folder_.open_transformer().value()),
        model_(dit::cpu::make_model(dit::find_weights(folder_.transformer, weights_, load_).value(),
                                    Context{})
                   .value()) {}

  Golden golden(const std::string& name) const {
    return {test::golden_tensor(expected_, name).values};
  }

  std::vector<int32_t> ids() const {
    return folder_.open_tokenizer()
        .value()
        .encode(expected_.metadata().at("prompt"), folder_.max_sequence_length)
        .value()
        .ids;
  }

  text::TextEmbedding embedding() const {
    nn::LoadSummary summary;
    text::Umt5Weights weights =
        text::find_umt5_weights(folder_.text_encoder, text_weights_, summary).value();
    auto steps = text::cpu::make_steps(weights).value();
    return text::Umt5Encoder(std::move(weights), std::move(steps))
        .encode(ids(), folder_.max_sequence_length)
        .value();
  }

  struct Outputs {
    std::vector<float> velocity;
    std::vector<float> block0;  // the residual stream after the first block
  };
  /// What the transformer makes of a golden input.
  Outputs run(const std::string& name, Grid grid, int64_t topk) const {
    const auto text = model_->prepare_text(embedding()).value();
    const TilePlan plan = TilePlan::grid(grid, {4, 4, 4}).value();
    if (topk == 0) topk = plan.num_tiles();
    const auto steps = model_->make_steps(grid, plan).value();
    const std::vector<int64_t> topks(2, topk);
    std::vector<dit::LayerStats> stats(2);
    const Golden latent = golden(name + ".latent");
    Outputs out{std::vector<float>(latent.values.size()), {}};
    const auto keep_first = [&] {
      if (!out.block0.empty()) return;
      out.block0.resize(static_cast<size_t>(grid.num_tokens() * model_->config().width()));
      throw_if_error(steps->read_residual(out.block0));
    };
    throw_if_error(dit::forward({.latents = latent.values.data(),
                                 .timestep = golden(name + ".timestep").values.at(0),
                                 .text = text.get(),
                                 .topk = topks,
                                 .on_layer = keep_first,
                                 .velocity = out.velocity.data()},
                                *steps, stats));
    return out;
  }

  static void expect_near(const std::vector<float>& got, const Golden& want,
                          const std::string& name) {
    ASSERT_EQ(got.size(), want.values.size());
    EXPECT_LT(test::relative_l2(want.view(got.data()), want.flat()), kRelativeL2) << name;
  }

  void expect_outputs(const std::string& name, Grid grid) const {
    for (const auto& [mode, topk] : {std::pair{".dense", 0}, std::pair{".topk2", 2}}) {
      const Outputs out = run(name, grid, topk);
      expect_near(out.velocity, golden(name + ".velocity" + mode), name + ".velocity" + mode);
      expect_near(out.block0, golden(name + ".block0" + mode), name + ".block0" + mode);
    }
    // The comparison can fail: sparse and dense outputs differ by far more.
    EXPECT_GT(test::relative_l2(golden(name + ".velocity.topk2").flat(),
                                golden(name + ".velocity.dense").flat()),
              1e-3);
  }

  runtime::ModelFolder folder_;
  io::SafetensorsFile expected_;
  io::Checkpoint text_weights_, weights_;
  dit::LoadReport load_;
  std::unique_ptr<dit::Model> model_;
};

TEST_F(WanGolden, R19_LoadsEveryTensor) {
  EXPECT_EQ(load_.naming, "diffusers");
  EXPECT_TRUE(load_.has_gates);
  EXPECT_EQ(load_.summary.unused, std::vector<std::string>{});
  EXPECT_EQ(load_.summary.loaded, std::ssize(weights_.tensors()));
  EXPECT_EQ(load_.summary.dtype, "F32");
}

TEST_F(WanGolden, TokenIds) {
  const io::TensorView* view = expected_.find("text.ids");
  ASSERT_NE(view, nullptr);
  std::vector<int32_t> want(static_cast<size_t>(view->num_elements()));
  std::memcpy(want.data(), view->bytes.data(), view->bytes.size());
  std::vector<int32_t> got = ids();
  EXPECT_EQ(got.back(), 1);
  got.resize(want.size(), 0);
  EXPECT_EQ(got, want);
}

TEST_F(WanGolden, R10_R11_TextEncoder) {
  const text::TextEmbedding got = embedding();
  const Golden want = golden("text.hidden");
  ASSERT_EQ(got.rows.size(), std::ssize(want.values));
  EXPECT_LT(test::relative_l2(want.view(got.rows.data()), want.flat()), kRelativeL2);
  for (int64_t i = got.num_valid * 24; i < got.rows.size(); ++i) EXPECT_EQ(got.rows.data()[i], 0);
}

TEST_F(WanGolden, BlockAndVelocityOnPartialTiles) { expect_outputs("partial", {5, 6, 7}); }
TEST_F(WanGolden, BlockAndVelocityOnFullTiles) { expect_outputs("full", {4, 8, 8}); }

}  // namespace
}  // namespace vsa
