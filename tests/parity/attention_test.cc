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

}  // namespace
}  // namespace vsa::test
