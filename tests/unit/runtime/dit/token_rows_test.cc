// A pass whose rows are in the order of a curve predicts what one in raster order predicts.
#include "runtime/dit/token_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/dit/cpu/model.h"
#include "runtime/dit/transformer.h"
#include "tests/runtime_support/arrays.h"
#include "tests/runtime_support/tiny_model.h"
#include "tests/support/compare.h"
#include "tests/unit/runtime/io/files.h"

namespace vsa::dit {
namespace {

constexpr Grid kGrid{4, 5, 6};
constexpr int64_t kTextDim = 24, kPatch = 3 * 2 * 4 * 4;
constexpr int64_t kLayers = 3;
// Sums of f32 in another order, through three layers; a row at a wrong place changes more than
// 1e-2.
constexpr double kSame = 1e-5;

TilePlan plan_of(TokenOrder order) { return TilePlan::grid(kGrid, {.order = order}).value(); }

TEST(TokenRows, CuboidsStayInRasterOrder) {
  const TokenRows rows(plan_of(TokenOrder::kRaster));
  EXPECT_THAT(rows.order, testing::IsEmpty());
  EXPECT_EQ(rows.plan.video_grid(), kGrid);
}

TEST(TokenRows, ACurveBecomesRunsOfRows) {
  const TilePlan plan = plan_of(TokenOrder::kGilbert);
  const TokenRows rows(plan);
  EXPECT_TRUE(std::ranges::equal(rows.order, plan.tokens()));
  EXPECT_TRUE(rows.plan.tiles_are_runs());
  EXPECT_EQ(rows.plan.seq_len(), kGrid.num_tokens());
  EXPECT_EQ(rows.plan.num_tiles(), plan.num_tiles());
}

class OrderedPass : public testing::Test {
 protected:
  OrderedPass() {
    const test::TinyModel tiny(1, /*gated=*/false);
    tiny.write(folder_.path());
    checkpoint_ = io::Checkpoint::open(folder_ / "transformer").value();
    std::vector<std::string> ignored;
    const WanConfig config = parse_wan_config(tiny.transformer_config, "c", ignored).value();
    LoadReport report;
    model_ = cpu::make_model(find_weights(config, checkpoint_, report).value(), Context{}).value();
    text::TextEmbedding text{.rows = nn::Buffer(3 * kTextDim), .num_rows = 3, .num_valid = 3};
    std::ranges::copy(test::normal_f32(3 * kTextDim, 8), text.rows.data());
    text_ = model_->prepare_text(text).value();
  }

  std::vector<float> predict(TokenOrder order, int64_t topk) {
    const auto steps = model_->make_steps(kGrid, plan_of(order)).value();
    const std::vector<int64_t> kept(kLayers, topk);
    std::vector<float> velocity(latents_.size());
    throw_if_error(forward({.latents = latents_.data(),
                            .timestep = 500.0F,
                            .text = text_.get(),
                            .topk = kept,
                            .on_layer = {},
                            .velocity = velocity.data()},
                           *steps, {}));
    return velocity;
  }

  static double distance(const std::vector<float>& got, const std::vector<float>& want) {
    const auto flat = [](const std::vector<float>& x) {
      return ConstTensor::bhsd(x.data(), DType::kF32, {.seq_len = 1, .head_dim = std::ssize(x)});
    };
    return test::relative_l2(flat(got), flat(want));
  }

  test::ScratchDirectory folder_;
  io::Checkpoint checkpoint_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<TextContext> text_;
  const std::vector<float> latents_ = test::normal_f32(kGrid.num_tokens() * kPatch, 9);
};

TEST_F(OrderedPass, WithAllTilesTheOrderMakesNoDifference) {
  const std::vector<float> want =
      predict(TokenOrder::kRaster, plan_of(TokenOrder::kRaster).num_tiles());
  for (const TokenOrder order : {TokenOrder::kGilbert, TokenOrder::kGilbertFrames}) {
    EXPECT_LT(distance(predict(order, plan_of(order).num_tiles()), want), kSame) << name(order);
  }
}

TEST_F(OrderedPass, WithFewerTilesItDoes) {
  const std::vector<float> raster = predict(TokenOrder::kRaster, 1);
  EXPECT_GT(distance(predict(TokenOrder::kGilbert, 1), raster), 1e-3);
}

}  // namespace
}  // namespace vsa::dit
