// Real sizes, on the CPU backend: what small shapes cannot show. The reference would take hours, so
// rows are sampled from the definition instead.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/compare.h"
#include "tests/support/naive.h"
#include "tests/support/problem.h"
#include "tests/support/tolerance.h"

namespace vsa::test {
namespace {

constexpr Context kReference{.backend = BackendId::kReference};
constexpr Context kCpu{.backend = BackendId::kCpu};

/// `count` rows spread over the sequence, the first and the last among them.
std::vector<int64_t> sampled_rows(int64_t seq_len, int64_t count) {
  std::vector<int64_t> rows;
  for (int64_t n = 0; n < count; ++n) rows.push_back(n * (seq_len - 1) / (count - 1));
  return rows;
}

/// The rows of `out` must be masked attention by the definition.
void expect_rows_right(const Qkv& in, const ConstLut& lut, const TestTensor& out,
                       const std::vector<int64_t>& rows) {
  const TokenMask mask = token_mask(in, lut);
  const FineResult want = naive_attention(in, mask, rows);
  Qkv absolute = in;
  absolute.v = in.v.abs();
  const FineResult magnitude = naive_attention(absolute, mask, rows);
  const double relative = attention_relative_error(in);
  const Dims dims{in.q.dims().batch, in.q.dims().num_heads, static_cast<int64_t>(rows.size()),
                  in.q.dims().head_dim};
  TestTensor got_rows(DType::kF64, dims);
  TestTensor want_rows(DType::kF64, dims);
  Tolerance tolerance{.bound = {}, .origin = "attention_relative_error * sum_j p_j |v_j|"};
  for (int64_t b = 0; b < dims.batch; ++b) {
    for (int64_t h = 0; h < dims.num_heads; ++h) {
      for (int64_t n = 0; n < dims.seq_len; ++n) {
        const int64_t row = rows[static_cast<size_t>(n)];
        for (int64_t d = 0; d < dims.head_dim; ++d) {
          got_rows.set(b, h, n, d, out.at(b, h, row, d));
          want_rows.set(b, h, n, d, want.out.at(b, h, row, d));
          tolerance.bound.push_back(relative * magnitude.out.at(b, h, row, d));
        }
      }
    }
  }
  expect_close(got_rows, want_rows, tolerance);
}

TEST(FullSize, T45_75600TokensOnSampledRows) {
  const TilePlan plan = TilePlan::grid({21, 45, 80}, {4, 4, 4}).value();
  const Heads heads{.num_heads = 1, .num_kv_heads = 1, .head_dim = 64};
  const Qkv in = make_qkv(DType::kBF16, heads, plan, plan, 1);
  const int64_t topk = topk_from_sparsity(0.97, plan.num_tiles()).value();
  const AttentionResult got =
      run_attention(kCpu, in, {.gate_coarse = Gate::zero(), .select = {.topk = topk}});
  expect_rows_right(in, got.lut.view(), got.out, sampled_rows(75600, 64));
}

TEST(FullSize, T35_FewQueriesManyKeys) {
  const Heads heads{.num_heads = 2, .num_kv_heads = 1, .head_dim = 96};
  const TilePlan q_plan = TilePlan::grid({8, 16, 16}, {4, 4, 4}).value();
  const TilePlan kv_plan = TilePlan::grid({8, 32, 32}, {4, 4, 4}).value();
  ASSERT_EQ(q_plan.seq_len(), 2048);
  ASSERT_EQ(kv_plan.seq_len(), 8192);
  for (const DType dtype : {DType::kF32, DType::kF16}) {
    const Qkv in = make_qkv(dtype, heads, q_plan, kv_plan, 1);
    const AttentionResult got =
        run_attention(kCpu, in, {.gate_coarse = Gate::zero(), .select = {.topk = 16}});
    expect_rows_right(in, got.lut.view(), got.out, sampled_rows(2048, 64));
  }
}

TEST(FullSize, T14_GradientsWithOtherLengths) {
  const std::vector<int32_t> q_len(3, 64);
  const std::vector<int32_t> kv_len(7, 64);
  const Heads heads{.batch = 2, .num_heads = 3, .num_kv_heads = 3, .head_dim = 128};
  const Qkv in = make_qkv(DType::kF32, heads, TilePlan::tiled(q_len, 64).value(),
                          TilePlan::tiled(kv_len, 64).value(), 1);
  const LutBuffer lut = random_lut(heads, 3, 7, 2);
  const FineResult forward = run_fine(kCpu, in, lut.view());
  const FineResult wide{.out = forward.out.as(DType::kF64), .lse = forward.lse.as(DType::kF64)};
  const TestTensor dout = token_tensor(DType::kF32, heads, in.q_plan, 5);
  const Gradients got = run_fine_backward(kCpu, in, lut.view(), forward, dout);
  const Gradients want =
      run_fine_backward(kReference, as_f64(in), lut.view(), wide, dout.as(DType::kF64));
  const GradientTolerance tolerance = fine_backward_tolerance(in, lut.view(), forward, dout);
  expect_close(got.dq, want.dq, tolerance.dq);
  expect_close(got.dk, want.dk, tolerance.dk);
  expect_close(got.dv, want.dv, tolerance.dv);
}

double norm(const TestTensor& x) {
  double sum = 0.0;
  for (const double value : x.values()) sum += value * value;
  return std::sqrt(sum);
}

TEST(FullSize, T12_GradientsOfLargeInputs) {
  const Heads heads{.num_heads = 4, .num_kv_heads = 4, .head_dim = 128};
  const TilePlan plan = TilePlan::grid({8, 8, 8}, {4, 4, 4}).value();
  const AttentionOptions options{.gate_coarse = Gate::zero(), .select = {.topk = 3}};
  for (const double factor : {1.0, 4.0, 16.0}) {
    SCOPED_TRACE(factor);
    Qkv in = make_qkv(DType::kBF16, heads, plan, plan, 1);
    for (TestTensor* x : {&in.q, &in.k}) {
      *x = x->map([=](double value) { return factor * value; }).as(DType::kBF16);
    }
    const TestTensor dout = token_tensor(DType::kBF16, heads, plan, 5);
    const AttentionResult forward = run_attention(kCpu, in, options);
    const AttentionGradients got = run_attention_backward(kCpu, in, options, forward, dout);

    AttentionOptions same = options;
    same.lut = forward.lut.view();
    const Qkv wide = as_f64(in);
    const AttentionResult exact_forward = run_attention(kReference, wide, same);
    const AttentionGradients want =
        run_attention_backward(kReference, wide, same, exact_forward, dout.as(DType::kF64));
    const auto check = [&](const TestTensor& x, const TestTensor& y) {
      EXPECT_LT(relative_l2(x.view(), y.view()), 5e-2);
      EXPECT_NEAR(norm(x) / norm(y), 1.0, 0.02);
    };
    check(got.dq, want.dq);
    check(got.dk, want.dk);
    check(got.dv, want.dv);
  }
}

TEST(FullSize, T19_BatchesOfGuidance) {
  const TilePlan plan = TilePlan::grid({4, 8, 8}, {4, 4, 4}).value();
  const Heads heads{.batch = 2, .num_heads = 12, .num_kv_heads = 12, .head_dim = 128};
  const Qkv in = make_qkv(DType::kBF16, heads, plan, plan, 1);
  const AttentionOptions options{.select = {.topk = 2}};
  const AttentionResult both = run_attention(kCpu, in, options);
  for (const int64_t b : {0, 1}) {
    const AttentionResult alone = run_attention(
        kCpu,
        {batch_item(in.q, b), batch_item(in.k, b), batch_item(in.v, b), in.q_plan, in.kv_plan},
        options);
    EXPECT_TRUE(same_bits(batch_item(both.out, b).view(), alone.out.view()));
  }
}

}  // namespace
}  // namespace vsa::test
