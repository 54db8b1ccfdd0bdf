// Every tensor argument of every entrance, wrong in every way that has nothing to do with the call.
#include <gtest/gtest.h>

#include "tests/support/bad_call.h"
#include "tests/support/calls.h"
#include "tests/support/validate.h"

namespace vsa::test {
namespace {

/// Adds the bad tensors of one argument to `calls`.
#define VSA_TENSOR(Setup, member, role)                                                    \
  [] {                                                                                     \
    return bad_tensors<Setup>(#member, Role::role,                                         \
                              [](Setup& s) -> decltype(auto) { return (s.args.member); }); \
  }()
#define VSA_LAST_AXIS(Setup, member) \
  strided_last_axis<Setup>(#member, [](Setup& s) -> decltype(auto) { return (s.args.member); })

template <class Setup>
void expect_valid() {
  const Setup setup;
  const Status status = validate(setup.context, setup.args);
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(ValidateTensors, TheCallsThatGetSpoiledAreValid) {
  expect_valid<TileCall>();
  expect_valid<UntileCall>();
  expect_valid<PoolCall>();
  expect_valid<NormRopePoolCall>();
  expect_valid<ResidualNormCall>();
  expect_valid<Conv3dCall>();
  expect_valid<PixelNormCall>();
  expect_valid<UpsampleCall>();
  expect_valid<SoftmaxCall>();
  expect_valid<PoolBackwardCall>();
  expect_valid<CoarseCall>();
  expect_valid<CoarseBackwardCall>();
  expect_valid<SelectCall>();
  expect_valid<FineCall>();
  expect_valid<FineBackwardCall>();
  expect_valid<CombineCall>();
  expect_valid<CombineBackwardCall>();
  expect_valid<AttentionCall>();
  expect_valid<AttentionBackwardCall>();
}

TEST(ValidateTensors, Tile) {
  expect_refused(VSA_TENSOR(TileCall, x, kFirst), "tile");
  expect_refused(VSA_TENSOR(TileCall, tiled, kOutput), "tile");
  expect_refused(VSA_LAST_AXIS(TileCall, x), "tile");
  expect_refused(VSA_LAST_AXIS(TileCall, tiled), "tile");
}

TEST(ValidateTensors, Untile) {
  expect_refused(VSA_TENSOR(UntileCall, tiled, kFirst), "untile");
  expect_refused(VSA_TENSOR(UntileCall, x, kOutput), "untile");
  expect_refused(VSA_LAST_AXIS(UntileCall, tiled), "untile");
}

TEST(ValidateTensors, Pool) {
  expect_refused(VSA_TENSOR(PoolCall, x, kFirst), "pool");
  expect_refused(VSA_TENSOR(PoolCall, pooled, kOutput), "pool");
  expect_refused(VSA_TENSOR(PoolBackwardCall, dpooled, kFirst), "pool_backward");
  expect_refused(VSA_TENSOR(PoolBackwardCall, dx, kOutput), "pool_backward");
}

/// The stride of an axis of extent 1 may be anything.
template <class Setup>
std::vector<BadCall<Setup>> of_one_row(std::vector<BadCall<Setup>> calls) {
  std::erase_if(calls, [](const BadCall<Setup>& bad) {
    return bad.name.find(" stride ") != std::string::npos && bad.name.ends_with("on axis 2");
  });
  return calls;
}

TEST(ValidateTensors, ResidualNorm) {
  const auto op = "residual_norm";
  expect_refused(VSA_TENSOR(ResidualNormCall, x, kFirst), op);
  expect_refused(VSA_TENSOR(ResidualNormCall, y, kOptionalInput), op);
  expect_refused(of_one_row(VSA_TENSOR(ResidualNormCall, gate, kOptionalInput)), op);
  expect_refused(of_one_row(VSA_TENSOR(ResidualNormCall, scale, kOptionalInput)), op);
  expect_refused(of_one_row(VSA_TENSOR(ResidualNormCall, shift, kOptionalInput)), op);
  expect_refused(VSA_TENSOR(ResidualNormCall, out, kOptionalOutput), op);
  expect_refused(VSA_LAST_AXIS(ResidualNormCall, x), op);
  expect_refused(VSA_LAST_AXIS(ResidualNormCall, gate), op);
}

TEST(ValidateTensors, RelativeAttention) {
  const auto op = "relative_attention";
  expect_refused(VSA_TENSOR(RelativeAttentionCall, q, kFirst), op);
  expect_refused(VSA_TENSOR(RelativeAttentionCall, k, kFirst), op);
  expect_refused(VSA_TENSOR(RelativeAttentionCall, v, kInput), op);
  expect_refused(of_one_row(VSA_TENSOR(RelativeAttentionCall, bias, kInput)), op);
  expect_refused(VSA_TENSOR(RelativeAttentionCall, out, kOutput), op);
  expect_refused(VSA_LAST_AXIS(RelativeAttentionCall, v), op);
  expect_refused(VSA_LAST_AXIS(RelativeAttentionCall, bias), op);
}

TEST(ValidateTensors, PixelNorm) {
  const auto op = "pixel_norm";
  expect_refused(VSA_TENSOR(PixelNormCall, y, kFirst), op);
  expect_refused(VSA_TENSOR(PixelNormCall, x, kOptionalOutput), op);
  expect_refused(VSA_TENSOR(PixelNormCall, out, kOptionalOutput), op);
  expect_refused(VSA_LAST_AXIS(PixelNormCall, y), op);
  expect_refused(VSA_LAST_AXIS(PixelNormCall, bias), op);
  expect_refused(VSA_LAST_AXIS(PixelNormCall, gamma), op);
}

TEST(ValidateTensors, Softmax) {
  expect_refused(VSA_TENSOR(SoftmaxCall, x, kFirst), "softmax");
  expect_refused(VSA_TENSOR(SoftmaxCall, out, kOutput), "softmax");
}

TEST(ValidateTensors, Coarse) {
  expect_refused(VSA_TENSOR(CoarseCall, q_pooled, kFirst), "coarse");
  expect_refused(VSA_TENSOR(CoarseCall, k_pooled, kInput), "coarse");
  expect_refused(VSA_TENSOR(CoarseCall, v_pooled, kInput), "coarse");
  expect_refused(VSA_TENSOR(CoarseCall, coarse_scores, kOptionalOutput), "coarse");
  expect_refused(VSA_TENSOR(CoarseCall, coarse_out, kOptionalOutput), "coarse");
}

TEST(ValidateTensors, CoarseBackward) {
  const auto op = "coarse_backward";
  expect_refused(VSA_TENSOR(CoarseBackwardCall, q_pooled, kFirst), op);
  expect_refused(VSA_TENSOR(CoarseBackwardCall, k_pooled, kInput), op);
  expect_refused(VSA_TENSOR(CoarseBackwardCall, v_pooled, kInput), op);
  expect_refused(VSA_TENSOR(CoarseBackwardCall, dcoarse_out, kInput), op);
  expect_refused(VSA_TENSOR(CoarseBackwardCall, dq_pooled, kOutput), op);
  expect_refused(VSA_TENSOR(CoarseBackwardCall, dk_pooled, kOutput), op);
  expect_refused(VSA_TENSOR(CoarseBackwardCall, dv_pooled, kOutput), op);
}

TEST(ValidateTensors, Select) {
  expect_refused(VSA_TENSOR(SelectCall, coarse_scores, kFirst), "select");
  expect_refused(VSA_LAST_AXIS(SelectCall, coarse_scores), "select");
}

TEST(ValidateTensors, Fine) {
  expect_refused(VSA_TENSOR(FineCall, q, kFirst), "fine");
  expect_refused(VSA_TENSOR(FineCall, k, kInput), "fine");
  expect_refused(VSA_TENSOR(FineCall, v, kInput), "fine");
  expect_refused(VSA_TENSOR(FineCall, out, kOutput), "fine");
  expect_refused(VSA_TENSOR(FineCall, lse, kOptionalOutput), "fine");
  expect_refused(VSA_LAST_AXIS(FineCall, k), "fine");
  expect_refused(VSA_LAST_AXIS(FineCall, out), "fine");
}

TEST(ValidateTensors, FineBackward) {
  const auto op = "fine_backward";
  expect_refused(VSA_TENSOR(FineBackwardCall, q, kFirst), op);
  expect_refused(VSA_TENSOR(FineBackwardCall, k, kInput), op);
  expect_refused(VSA_TENSOR(FineBackwardCall, v, kInput), op);
  expect_refused(VSA_TENSOR(FineBackwardCall, out, kInput), op);
  expect_refused(VSA_TENSOR(FineBackwardCall, lse, kInput), op);
  expect_refused(VSA_TENSOR(FineBackwardCall, dout, kInput), op);
  expect_refused(VSA_TENSOR(FineBackwardCall, dq, kOutput), op);
  expect_refused(VSA_TENSOR(FineBackwardCall, dk, kOutput), op);
  expect_refused(VSA_TENSOR(FineBackwardCall, dv, kOutput), op);
}

TEST(ValidateTensors, Combine) {
  expect_refused(VSA_TENSOR(CombineCall, fine_out, kFirst), "combine");
  expect_refused(VSA_TENSOR(CombineCall, coarse_out, kInput), "combine");
  expect_refused(VSA_TENSOR(CombineCall, out, kOutput), "combine");
}

TEST(ValidateTensors, CombineBackward) {
  const auto op = "combine_backward";
  expect_refused(VSA_TENSOR(CombineBackwardCall, fine_out, kFirst), op);
  expect_refused(VSA_TENSOR(CombineBackwardCall, coarse_out, kInput), op);
  expect_refused(VSA_TENSOR(CombineBackwardCall, dout, kInput), op);
  expect_refused(VSA_TENSOR(CombineBackwardCall, dfine_out, kOutput), op);
  expect_refused(VSA_TENSOR(CombineBackwardCall, dcoarse_out, kOptionalOutput), op);
  expect_refused(VSA_TENSOR(CombineBackwardCall, dgate_coarse, kOptionalOutput), op);
  expect_refused(VSA_TENSOR(CombineBackwardCall, dgate_fine, kOptionalOutput), op);
}

TEST(ValidateTensors, AttentionForward) {
  const auto op = "attention_forward";
  expect_refused(VSA_TENSOR(AttentionCall, q, kFirst), op);
  expect_refused(VSA_TENSOR(AttentionCall, k, kInput), op);
  expect_refused(VSA_TENSOR(AttentionCall, v, kInput), op);
  expect_refused(VSA_TENSOR(AttentionCall, q_pooled, kOptionalInput), op);
  expect_refused(VSA_TENSOR(AttentionCall, k_pooled, kOptionalInput), op);
  expect_refused(VSA_TENSOR(AttentionCall, v_pooled, kOptionalInput), op);
  expect_refused(VSA_TENSOR(AttentionCall, coarse_out, kOptionalInput), op);
  expect_refused(VSA_TENSOR(AttentionCall, out, kOutput), op);
  expect_refused(VSA_TENSOR(AttentionCall, lse, kOptionalOutput), op);
  expect_refused(VSA_TENSOR(AttentionCall, fine_out, kOptionalOutput), op);
}

TEST(ValidateTensors, AttentionBackward) {
  const auto op = "attention_backward";
  expect_refused(VSA_TENSOR(AttentionBackwardCall, q, kFirst), op);
  expect_refused(VSA_TENSOR(AttentionBackwardCall, k, kInput), op);
  expect_refused(VSA_TENSOR(AttentionBackwardCall, v, kInput), op);
  expect_refused(VSA_TENSOR(AttentionBackwardCall, lse, kInput), op);
  expect_refused(VSA_TENSOR(AttentionBackwardCall, fine_out, kInput), op);
  expect_refused(VSA_TENSOR(AttentionBackwardCall, dout, kInput), op);
  expect_refused(VSA_TENSOR(AttentionBackwardCall, dq, kOutput), op);
  expect_refused(VSA_TENSOR(AttentionBackwardCall, dk, kOutput), op);
  expect_refused(VSA_TENSOR(AttentionBackwardCall, dv, kOutput), op);
  expect_refused(VSA_TENSOR(AttentionBackwardCall, dgate_coarse, kOptionalOutput), op);
  expect_refused(VSA_TENSOR(AttentionBackwardCall, dgate_fine, kOptionalOutput), op);
}

}  // namespace
}  // namespace vsa::test
