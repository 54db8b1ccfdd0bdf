// The stages and the whole operator against attention written from the definition.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/backends.h"
#include "tests/support/magnitude.h"
#include "tests/support/naive.h"
#include "tests/support/problem.h"
#include "tests/support/tolerance.h"

namespace vsa::test {
namespace {

class Oracle : public BackendTest {
 protected:
  /// out and, if no position is padding, lse of `fine` must be those of the definition.
  void expect_fine_is_right(const Qkv& in, const ConstLut& lut) const {
    const FineResult got = run_fine(context(), in, lut);
    const FineResult want = naive_attention(in, token_mask(in, lut));
    const FineTolerance tolerance = fine_tolerance(in, lut);
    expect_close(got.out, want.out, tolerance.out);
    if (in.q_plan.num_valid_tokens() == in.q_plan.seq_len()) {
      expect_close(got.lse, want.lse, tolerance.lse);
    }
  }
};
VSA_FOR_EACH_BACKEND(Oracle);

/// gate_fine * fine + gate_coarse * coarse, from the definition.
TestTensor naive_vsa(const Qkv& in, const ConstLut& lut, double gate_coarse, double gate_fine) {
  const auto times = [](const TestTensor& x, double factor) {
    return x.map([=](double value) { return factor * value; });
  };
  return sum(times(naive_attention(in, token_mask(in, lut)).out, gate_fine),
             times(naive_coarse(in), gate_coarse));
}

TEST_P(Oracle, FineIsMaskedAttentionForRandomShapes) {
  VSA_NEEDS(fine);
  EXPECT_TRUE(rc::check([&] {
    const auto extent = [](int64_t low, int64_t high) {
      return *rc::gen::inRange<int64_t>(low, high + 1);
    };
    const Heads heads{.batch = extent(1, 2),
                      .num_heads = 2,
                      .num_kv_heads = extent(1, 2),
                      .head_dim = 8 * extent(1, 3)};
    const TileShape shape{extent(1, 3), extent(1, 4), extent(1, 4)};
    const TilePlan q_plan =
        TilePlan::grid({extent(1, 3), extent(1, 5), extent(1, 5)}, shape).value();
    const TilePlan kv_plan =
        TilePlan::grid({extent(1, 3), extent(1, 5), extent(1, 5)}, shape).value();
    const auto dtype = *rc::gen::element(DType::kF32, DType::kBF16, DType::kF16);
    const auto seed = *rc::gen::arbitrary<uint64_t>();
    const Qkv in = make_qkv(dtype, heads, q_plan, kv_plan, seed);
    const LutBuffer lut = random_lut(heads, q_plan.num_tiles(), kv_plan.num_tiles(), seed);
    const FineResult got = run_fine(context(), in, lut.view());
    const FineResult want = naive_attention(in, token_mask(in, lut.view()));
    const FineTolerance tolerance = fine_tolerance(in, lut.view());
    RC_ASSERT(bool(close(got.out.view(), want.out.view(), tolerance.out)));
    RC_ASSERT(bool(close(got.lse.view(), want.lse.view(), tolerance.lse)));
  }));
}

TEST_P(Oracle, TopkOfAllTilesIsDenseAttention) {
  VSA_NEEDS_FORWARD;
  const TilePlan plan = TilePlan::grid({5, 6, 7}, {4, 4, 4}).value();
  const Heads heads{.batch = 2, .num_heads = 2, .num_kv_heads = 1, .head_dim = 24};
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const Qkv in = make_qkv(dtype, heads, plan, plan, 1);
    const AttentionOptions options{.gate_coarse = Gate::zero(),
                                   .select = {.topk = plan.num_tiles()}};
    const auto everything = [](int64_t, int64_t, int64_t, int64_t) { return true; };
    const AttentionResult got = run_attention(context(), in, options);
    expect_close(got.out, naive_attention(in, everything).out,
                 attention_tolerance(in, options, got.lut.view()));
  }
}

TEST_P(Oracle, T23_GatesAtTopkOfAll) {
  VSA_NEEDS_FORWARD;
  const TilePlan plan = TilePlan::grid({3, 4, 5}, {2, 2, 2}).value();
  const Heads heads{.num_heads = 2, .num_kv_heads = 2, .head_dim = 16};
  const Qkv in = make_qkv(DType::kBF16, heads, plan, plan, 1);
  const TestTensor ones = constant_tensor(DType::kBF16, in.q.dims(), 1.0);
  const TestTensor zeros = constant_tensor(DType::kBF16, in.q.dims(), 0.0);
  const auto run = [&](const Gate& gate_coarse) {
    return run_attention(context(), in,
                         {.gate_coarse = gate_coarse, .select = {.topk = plan.num_tiles()}});
  };
  const LutBuffer all = all_tiles(in);
  EXPECT_TRUE(same_bits(run(Gate::one()).out.view(), run(Gate::tensor(ones.view())).out.view()));
  EXPECT_TRUE(same_bits(run(Gate::zero()).out.view(), run(Gate::tensor(zeros.view())).out.view()));
  for (const float gate : {0.0F, 1.0F}) {
    expect_close(run(Gate::constant(gate)).out,
                 naive_vsa(in, all.view(), static_cast<double>(gate), 1.0),
                 attention_tolerance(in, {.gate_coarse = Gate::constant(gate)}, all.view()));
  }
  EXPECT_GT(relative_l2(run(Gate::one()).out.view(), run(Gate::zero()).out.view()), 0.01)
      << "the coarse branch is there although all tiles are kept";
}

TEST_P(Oracle, T20_HeadDims) {
  VSA_NEEDS(fine);
  const TilePlan plan = TilePlan::grid({2, 3, 5}, {2, 2, 2}).value();
  for (const int64_t head_dim : {32, 80, 96, 160, 256}) {
    SCOPED_TRACE(head_dim);
    const Heads heads{.num_heads = 2, .num_kv_heads = 1, .head_dim = head_dim};
    const Qkv in = make_qkv(DType::kF32, heads, plan, plan, 1);
    expect_fine_is_right(in, random_lut(heads, plan.num_tiles(), plan.num_tiles(), 2).view());
  }
}

TEST_P(Oracle, T25_GqaWithAListForEveryQueryHead) {
  VSA_NEEDS(fine);
  const TilePlan plan = TilePlan::grid({2, 4, 6}, {2, 2, 2}).value();
  const Heads heads{.num_heads = 8, .num_kv_heads = 2, .head_dim = 16};
  for (const DType dtype : {DType::kF32, DType::kF16}) {
    const Qkv in = make_qkv(dtype, heads, plan, plan, 1);
    expect_fine_is_right(in, random_lut(heads, plan.num_tiles(), plan.num_tiles(), 2).view());
  }
}

TEST_P(Oracle, T24_PartialLastTilesAndHalfPrecision) {
  VSA_NEEDS(fine);
  // Sq = 200 and Sk = 300 in tiles of 64: lists [0, 2] out of five kv tiles.
  const int64_t q_len[] = {199};
  const int64_t kv_len[] = {299};
  const TilePlan q_plan = TilePlan::packed(q_len, {1, 1, 1}, {4, 4, 4}).value();
  const TilePlan kv_plan = TilePlan::packed(kv_len, {1, 1, 1}, {4, 4, 4}).value();
  const Heads heads{.num_heads = 4, .num_kv_heads = 2, .head_dim = 128};
  const Qkv in = make_qkv(DType::kF16, heads, q_plan, kv_plan, 1);
  const std::vector<std::vector<int32_t>> rows(static_cast<size_t>(q_plan.num_tiles()), {0, 2});
  expect_fine_is_right(in, lut_of_rows(1, 4, rows).view());
}

TEST_P(Oracle, T17_ATileWithoutTokensIsAsIfItWereNotThere) {
  VSA_NEEDS_BACKWARD;
  const std::vector<int32_t> with_empty{64, 0, 64};
  const std::vector<int32_t> without{64, 64};
  const Heads heads{.num_heads = 2, .num_kv_heads = 2, .head_dim = 64};
  const TilePlan q_plan = TilePlan::tiled(without, 64).value();
  const Qkv in = make_qkv(DType::kF32, heads, q_plan, TilePlan::tiled(with_empty, 64).value(), 1);
  Qkv shorter = make_qkv(DType::kF32, heads, q_plan, q_plan, 1);
  for (int64_t h = 0; h < 2; ++h) {
    for (int64_t s = 0; s < 128; ++s) {
      for (int64_t d = 0; d < 64; ++d) {
        const int64_t from = s < 64 ? s : s + 64;
        shorter.k.set(0, h, s, d, in.k.at(0, h, from, d));
        shorter.v.set(0, h, s, d, in.v.at(0, h, from, d));
      }
    }
  }
  const AttentionOptions all{.select = {.topk = 3}};
  const AttentionOptions both{.select = {.topk = 2}};
  const AttentionResult got = run_attention(context(), in, all);
  const AttentionResult want = run_attention(context(), shorter, both);
  const Tolerance tolerance = attention_tolerance(shorter, both, want.lut.view());
  expect_close(got.out, want.out, tolerance);
  EXPECT_EQ(got.lut.view().count[0], 3) << "the empty tile counts among the topk, last in rank";
  // Selecting two of the three takes those that have tokens.
  const AttentionResult two = run_attention(context(), in, both);
  EXPECT_TRUE(same_lut(two.lut.view(), lut_of_rows(1, 2, {{0, 2}, {0, 2}}).view()));
  expect_close(two.out, want.out, tolerance);

  const TestTensor dout = token_tensor(DType::kF32, heads, q_plan, 5);
  const AttentionGradients gradients = run_attention_backward(context(), in, all, got, dout);
  for (int64_t s = 64; s < 128; ++s) EXPECT_EQ(gradients.dk.at(0, 0, s, 0), 0.0);
  expect_close(gradients.dq, run_attention_backward(context(), shorter, both, want, dout).dq,
               attention_backward_tolerance(shorter, both, want, dout).dq);
}

}  // namespace
}  // namespace vsa::test
