// src/reference/attention.cc: the stages in order, and the gradients of the whole.
#include "tests/unit/reference/reference_test.h"

namespace vsa::test {
namespace {

struct Problem {
  Heads heads{.batch = 1, .num_heads = 2, .num_kv_heads = 1};
  TilePlan q_plan = small_plan();
  TilePlan kv_plan = TilePlan::grid({1, 2, 5}, {1, 2, 2}).value();
  Qkv in = make_qkv(DType::kF64, heads, q_plan, kv_plan, 1);
  TestTensor gate_coarse = token_tensor(DType::kF64, heads, q_plan, 4);
  TestTensor gate_fine = token_tensor(DType::kF64, heads, q_plan, 5);
  AttentionOptions options() const {
    return {.gate_coarse = Gate::tensor(gate_coarse.view()),
            .gate_fine = Gate::tensor(gate_fine.view()),
            .select = {.topk = 2}};
  }
};

TEST(ReferenceAttention, IsTheStagesInOrder) {
  const Problem p;
  const AttentionResult got = run_attention(kReference, p.in, p.options());

  const CoarseResult coarse = run_coarse(kReference, run_pool(kReference, p.in.q, p.q_plan),
                                         run_pool(kReference, p.in.k, p.kv_plan),
                                         run_pool(kReference, p.in.v, p.kv_plan), p.kv_plan);
  const LutBuffer lut = run_select(kReference, coarse.scores, {.topk = 2});
  const FineResult fine = run_fine(kReference, p.in, lut.view());
  EXPECT_TRUE(same_lut(got.lut.view(), lut.view()));
  EXPECT_TRUE(same_bits(got.fine_out.view(), fine.out.view()));
  EXPECT_TRUE(same_bits(got.lse.view(), fine.lse.view()));
  EXPECT_TRUE(same_bits(got.out.view(),
                        run_combine(kReference, fine.out, coarse.out, p.options().gate_coarse,
                                    p.options().gate_fine, p.q_plan)
                            .view()));
}

TEST(ReferenceAttention, TakesTheCallersTable) {
  const Problem p;
  AttentionOptions options = p.options();
  const LutBuffer lut = random_lut(p.heads, p.q_plan.num_tiles(), p.kv_plan.num_tiles(), 6);
  options.lut = lut.view();
  const AttentionResult got = run_attention(kReference, p.in, options);
  EXPECT_TRUE(same_lut(got.lut.view(), lut.view()));
  EXPECT_TRUE(same_bits(got.fine_out.view(), run_fine(kReference, p.in, lut.view()).out.view()));
}

TEST(ReferenceAttention, GradientsMatchDifferences) {
  Problem p;
  const TestTensor weights = token_tensor(DType::kF64, p.heads, p.q_plan, 7);
  const AttentionResult forward = run_attention(kReference, p.in, p.options());
  AttentionOptions options = p.options();
  options.lut = forward.lut.view();  // top-k is a constant
  const auto loss = [&] {
    return weighted_sum(run_attention(kReference, p.in, options).out, weights);
  };
  const AttentionGradients analytic =
      run_attention_backward(kReference, p.in, options, forward, weights);
  expect_gradient(analytic.dq, p.in.q, loss);
  expect_gradient(analytic.dk, p.in.k, loss);
  expect_gradient(analytic.dv, p.in.v, loss);
  expect_gradient(analytic.dgate_coarse, p.gate_coarse, loss);
  expect_gradient(analytic.dgate_fine, p.gate_fine, loss);
}

}  // namespace
}  // namespace vsa::test
