// Parity of coarse attention.
#include "tests/parity/parity.h"

namespace vsa::test {
namespace {

class CoarseParity : public ParityTest {
 protected:
  /// Pooled inputs straight from N(0, 1): harder than true means, which are small.
  Qkv pooled(const TilePlan& kv_plan) const {
    const Heads& heads = shape().heads;
    const Dims q{heads.batch, heads.num_heads, shape().q_plan().num_tiles(), heads.head_dim};
    const Dims kv{heads.batch, heads.num_kv_heads, kv_plan.num_tiles(), heads.head_dim};
    return {.q = normal_tensor(DType::kF32, q, 1, shape().order),
            .k = normal_tensor(DType::kF32, kv, 2, shape().order),
            .v = normal_tensor(DType::kF32, kv, 3, shape().order),
            .q_plan = shape().q_plan(),
            .kv_plan = kv_plan};
  }

  /// The kv plan of the case, and one with the same number of tiles of which every third is empty.
  std::vector<TilePlan> kv_plans() const {
    std::vector<int32_t> tile_len;
    for (int64_t j = 0; j < shape().kv_plan().num_tiles(); ++j) {
      tile_len.push_back(j % 3 == 1 ? 0 : 4);
    }
    return {shape().kv_plan(), TilePlan::tiled(tile_len, 4).value()};
  }
};
VSA_PARITY(CoarseParity);

TEST_P(CoarseParity, Forward) {
  VSA_NEEDS(coarse);
  for (const TilePlan& kv_plan : kv_plans()) {
    Qkv in = pooled(kv_plan);
    for (const std::optional<float> scale : {std::optional<float>{}, std::optional<float>{0.3F}}) {
      in.scale = scale;
      const Qkv wide = as_f64(in);
      const CoarseResult got = run_coarse(context(), in.q, in.k, in.v, kv_plan, scale);
      const CoarseResult want = run_coarse(kReference, wide.q, wide.k, wide.v, kv_plan, scale);
      const CoarseTolerance tolerance = coarse_tolerance(in);
      expect_close(got.scores, want.scores, tolerance.scores);
      expect_close(got.out, want.out, tolerance.out);
    }
  }
}

TEST_P(CoarseParity, RoundedAsFastVideo) {
  VSA_NEEDS(coarse);
  for (const TilePlan& kv_plan : kv_plans()) {
    Qkv in = pooled(kv_plan);
    in.q = few_bits_tensor(DType::kF32, in.q.dims(), 1, shape().order);
    in.k = few_bits_tensor(DType::kF32, in.k.dims(), 2, shape().order);
    const Qkv wide = as_f64(in);
    const auto run = [&](const Context& where, const Qkv& x, CoarseRounding rounding) {
      return run_coarse(where, x.q, x.k, x.v, kv_plan, {}, rounding);
    };
    const CoarseResult got = run(context(), in, CoarseRounding::kBf16);
    const CoarseResult want = run(kReference, wide, CoarseRounding::kBf16);
    expect_close(got.scores, want.scores, exact());
    expect_close(got.scores, got.scores.as(DType::kBF16), exact());
    expect_close(got.out, want.out, rounded_coarse_out_tolerance(in));
    expect_close(got.out, got.out.as(DType::kBF16), exact());
    EXPECT_FALSE(close(got.scores, run(context(), in, CoarseRounding::kNone).scores, exact()));
  }
}

TEST_P(CoarseParity, Backward) {
  VSA_NEEDS(coarse_backward);
  for (const TilePlan& kv_plan : kv_plans()) {
    const Qkv in = pooled(kv_plan);
    const TestTensor dcoarse_out = normal_tensor(DType::kF32, in.q.dims(), 4, shape().order);
    expect_gradients_close(run_coarse_backward(context(), in, dcoarse_out),
                           run_coarse_backward(kReference, as_f64(in), dcoarse_out.as(DType::kF64)),
                           coarse_backward_tolerance(in, dcoarse_out));
  }
}

}  // namespace
}  // namespace vsa::test
