// Parity of the whole operator, forward and backward.
#include <algorithm>
#include <functional>

#include "src/core/element.h"
#include "src/core/lut_row.h"
#include "tests/parity/parity.h"
#include "tests/support/magnitude.h"

namespace vsa::test {
namespace {

class AttentionParity : public ParityTest {
 protected:
  /// A fifth of the kv tiles, so that rows differ.
  SelectOptions options() const {
    return {.topk = std::max<int64_t>(1, shape().kv_plan().num_tiles() / 5)};
  }
};
VSA_PARITY(AttentionParity);

/// A backend may keep other tiles than the reference only where scores are so close that rounding
/// decides: everything kept must reach the k-th best score, everything left out must not exceed it,
/// each within the error of two scores.
void expect_topk_within_rounding(const ConstLut& lut, const TestTensor& scores,
                                 const std::vector<double>& bound, int64_t topk) {
  const Dims dims = scores.dims();
  size_t element = 0;
  for (int64_t b = 0; b < dims.batch; ++b) {
    for (int64_t h = 0; h < dims.num_heads; ++h) {
      for (int64_t i = 0; i < dims.seq_len; ++i) {
        const std::vector<double> row = load_row(scores.view(), b, h, i);
        std::vector<double> sorted = row;
        std::ranges::sort(sorted, std::greater<>());
        const double kth = sorted[static_cast<size_t>(topk - 1)];
        const auto kept = lut_row(lut, b, h, i);
        ASSERT_EQ(static_cast<int64_t>(kept.size()), topk);
        for (int32_t j = 0; j < static_cast<int32_t>(row.size()); ++j, ++element) {
          const double score = row[static_cast<size_t>(j)];
          const double slack = 2.0 * bound[element];
          if (std::ranges::binary_search(kept, j)) {
            EXPECT_GE(score, kth - slack) << "kept " << j << " in row " << i;
          } else {
            EXPECT_LE(score, kth + slack) << "left out " << j << " in row " << i;
          }
        }
      }
    }
  }
}

TEST_P(AttentionParity, Forward) {
  VSA_NEEDS_FORWARD;
  for (const DType dtype : kTokenDtypes) {
    SCOPED_TRACE(name(dtype));
    const Qkv in = qkv(dtype);
    const TestTensor gate_coarse = like_q(dtype, 5);
    const TestTensor gate_fine = like_q(dtype, 6);
    const AttentionResult got = run_attention(context(), in,
                                              {.gate_coarse = Gate::tensor(gate_coarse.view()),
                                               .gate_fine = Gate::tensor(gate_fine.view()),
                                               .select = options()});

    const Qkv pooled = pooled_f64(in);
    const TestTensor scores =
        run_coarse(kReference, pooled.q, pooled.k, pooled.v, in.kv_plan, in.scale).scores;
    expect_topk_within_rounding(got.lut.view(), scores, attention_score_tolerance(in).bound,
                                options().topk);

    const TestTensor wide_coarse = gate_coarse.as(DType::kF64);
    const TestTensor wide_fine = gate_fine.as(DType::kF64);
    const AttentionOptions wide{.gate_coarse = Gate::tensor(wide_coarse.view()),
                                .gate_fine = Gate::tensor(wide_fine.view()),
                                .lut = got.lut.view()};
    const AttentionResult want = run_attention(kReference, as_f64(in), wide);
    const FineTolerance fine = fine_tolerance(in, got.lut.view());
    expect_close(got.lse, want.lse, fine.lse);
    expect_close(got.fine_out, want.fine_out, fine.out);
    expect_close(got.out, want.out, attention_tolerance(in, wide, got.lut.view()));
  }
}

TEST_P(AttentionParity, SelectsByRoundedScores) {
  VSA_NEEDS(attention_forward);
  for (const DType dtype : kTokenDtypes) {
    SCOPED_TRACE(name(dtype));
    const Qkv in =
        few_bits_qkv(dtype, shape().heads, shape().q_plan(), shape().kv_plan(), shape().order);
    const AttentionOptions options{
        .gate_fine = Gate::zero(),
        .select = {.topk = std::max<int64_t>(1, shape().kv_plan().num_tiles() / 3)},
        .rounding = CoarseRounding::kBf16};
    const AttentionResult got = run_attention(context(), in, options);
    const AttentionResult want = run_attention(kReference, as_f64(in), options);
    EXPECT_TRUE(same_lut(got.lut.view(), want.lut.view()));
    EXPECT_LT(relative_l2(got.out, want.out), eps(DType::kBF16));
  }
}

TEST_P(AttentionParity, Backward) {
  VSA_NEEDS_BACKWARD;
  const LutBuffer table = lut();
  for (const DType dtype : kTokenDtypes) {
    SCOPED_TRACE(name(dtype));
    const Qkv in = qkv(dtype);
    const TestTensor gate_coarse = like_q(dtype, 5);
    const TestTensor gate_fine = like_q(dtype, 6);
    const TestTensor dout = like_q(dtype, 7);
    const AttentionOptions options{.gate_coarse = Gate::tensor(gate_coarse.view()),
                                   .gate_fine = Gate::tensor(gate_fine.view()),
                                   .lut = table.view()};
    const TestTensor wide_coarse = gate_coarse.as(DType::kF64);
    const TestTensor wide_fine = gate_fine.as(DType::kF64);
    const AttentionOptions wide{.gate_coarse = Gate::tensor(wide_coarse.view()),
                                .gate_fine = Gate::tensor(wide_fine.view()),
                                .lut = table.view()};

    const AttentionResult forward = run_attention(kReference, in, options);
    AttentionResult wide_forward = forward;
    wide_forward.lse = forward.lse.as(DType::kF64);
    wide_forward.fine_out = forward.fine_out.as(DType::kF64);

    const AttentionGradients got = run_attention_backward(context(), in, options, forward, dout);
    const AttentionGradients want =
        run_attention_backward(kReference, as_f64(in), wide, wide_forward, dout.as(DType::kF64));
    const AttentionTolerance tolerance = attention_backward_tolerance(in, options, forward, dout);
    expect_close(got.dq, want.dq, tolerance.dq);
    expect_close(got.dk, want.dk, tolerance.dk);
    expect_close(got.dv, want.dv, tolerance.dv);
    expect_close(got.dgate_coarse, want.dgate_coarse, tolerance.dgate_coarse);
    expect_close(got.dgate_fine, want.dgate_fine, tolerance.dgate_fine);
  }
}

/// The stages before the operator, each on its own: what they gave, the operator need not compute.
struct Existing {
  TestTensor q_pooled, k_pooled, v_pooled;
  CoarseResult coarse;
  LutBuffer lut;
};
Existing existing(const Context& context, const Qkv& in, const SelectOptions& select) {
  Existing all{.q_pooled = run_pool(context, in.q, in.q_plan),
               .k_pooled = run_pool(context, in.k, in.kv_plan),
               .v_pooled = run_pool(context, in.v, in.kv_plan),
               .coarse = {},
               .lut = {}};
  all.coarse = run_coarse(context, all.q_pooled, all.k_pooled, all.v_pooled, in.kv_plan, in.scale);
  all.lut = run_select(context, all.coarse.scores, select);
  return all;
}

/// Given what the stages of the same backend gave, the operator gives the same bits as without: in
/// f64 on the reference, whose operator has f64 between its stages.
TEST_P(AttentionParity, WhatExistsAlreadyChangesNoBit) {
  VSA_NEEDS_FORWARD;
  const bool is_reference = context().backend == BackendId::kReference;
  for (const DType dtype : kTokenDtypes) {
    SCOPED_TRACE(name(dtype));
    const Qkv in = is_reference ? as_f64(qkv(dtype)) : qkv(dtype);
    const TestTensor gate = like_q(in.q.dtype(), 5);
    const Existing given = existing(context(), in, options());
    AttentionOptions run{.gate_coarse = Gate::tensor(gate.view()), .select = options()};
    const AttentionResult want = run_attention(context(), in, run);
    const auto expect_same = [&](const char* what) {
      const AttentionResult got = run_attention(context(), in, run);
      EXPECT_TRUE(same_bits(got.out, want.out)) << what;
      EXPECT_TRUE(same_bits(got.lse, want.lse)) << what;
      EXPECT_TRUE(same_bits(got.fine_out, want.fine_out)) << what;
      EXPECT_TRUE(same_lut(got.lut.view(), want.lut.view())) << what;
    };
    run.q_pooled = given.q_pooled.view();
    expect_same("means of q");
    run.k_pooled = given.k_pooled.view();
    run.v_pooled = given.v_pooled.view();
    expect_same("all means");
    run.coarse_out = given.coarse.out.view();
    expect_same("means and coarse_out");
    run.lut = given.lut.view();
    expect_same("means, coarse_out and lut");
    run.q_pooled = run.k_pooled = run.v_pooled = {};
    expect_same("coarse_out and lut");
  }
}

/// Wrong means select other tiles, and a wrong coarse_out is what is combined: they are not
/// computed again.
TEST_P(AttentionParity, WhatExistsAlreadyIsUsed) {
  VSA_NEEDS_FORWARD;
  const bool is_reference = context().backend == BackendId::kReference;
  const Qkv in = is_reference ? as_f64(qkv(DType::kF32)) : qkv(DType::kF32);
  const Existing other = existing(
      context(), is_reference ? as_f64(qkv(DType::kF32, 2)) : qkv(DType::kF32, 2), options());
  AttentionOptions run{.select = options()};
  run.q_pooled = other.q_pooled.view();
  run.k_pooled = other.k_pooled.view();
  run.v_pooled = other.v_pooled.view();
  AttentionResult got = run_attention(context(), in, run);
  EXPECT_TRUE(same_lut(got.lut.view(), other.lut.view()));
  const auto expect_combined = [&](const char* what) {
    const TestTensor want =
        run_combine(context(), got.fine_out, other.coarse.out, Gate::one(), Gate::one(), in.q_plan);
    EXPECT_TRUE(same_bits(got.out, want)) << what;
  };
  expect_combined("coarse stage of the given means");
  run.q_pooled = run.k_pooled = run.v_pooled = {};
  run.coarse_out = other.coarse.out.view();
  got = run_attention(context(), in, run);
  expect_combined("the given coarse_out");
}

}  // namespace
}  // namespace vsa::test
