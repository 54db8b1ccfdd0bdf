// What must not change the result, or change it in a known way.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/backends.h"
#include "tests/support/problem.h"
#include "tests/support/tolerance.h"

namespace vsa::test {
namespace {

/// A small problem with partial tiles, GQA, two batch items and Sq != Sk.
struct Problem {
  Heads heads{.batch = 2, .num_heads = 4, .num_kv_heads = 2, .head_dim = 24};
  TilePlan q_plan = TilePlan::grid({3, 4, 5}, {2, 3, 2}).value();
  TilePlan kv_plan = TilePlan::grid({3, 5, 5}, {2, 3, 2}).value();
  Qkv in;
  TestTensor gate_coarse, gate_fine, dout;

  explicit Problem(DType dtype = DType::kF32, Order order = Order::kBshd)
      : in(make_qkv(dtype, heads, q_plan, kv_plan, 1, order)),
        gate_coarse(token_tensor(dtype, heads, q_plan, 4, order)),
        gate_fine(token_tensor(dtype, heads, q_plan, 5, order)),
        dout(token_tensor(dtype, heads, q_plan, 6, order)) {}

  AttentionOptions options() const {
    return {.gate_coarse = Gate::tensor(gate_coarse.view()),
            .gate_fine = Gate::tensor(gate_fine.view()),
            .select = {.topk = 4}};
  }
};

struct Outcome {
  AttentionResult forward;
  AttentionGradients backward;
};

Outcome run_both(const Context& context, const Problem& p) {
  Outcome outcome{.forward = run_attention(context, p.in, p.options()), .backward = {}};
  outcome.backward = run_attention_backward(context, p.in, p.options(), outcome.forward, p.dout);
  return outcome;
}

void expect_same_bits(const Outcome& got, const Outcome& want) {
  EXPECT_TRUE(same_lut(got.forward.lut.view(), want.forward.lut.view()));
  EXPECT_TRUE(same_bits(got.forward.out.view(), want.forward.out.view()));
  EXPECT_TRUE(same_bits(got.forward.lse.view(), want.forward.lse.view()));
  EXPECT_TRUE(same_bits(got.forward.fine_out.view(), want.forward.fine_out.view()));
  EXPECT_TRUE(same_bits(got.backward.dq.view(), want.backward.dq.view()));
  EXPECT_TRUE(same_bits(got.backward.dk.view(), want.backward.dk.view()));
  EXPECT_TRUE(same_bits(got.backward.dv.view(), want.backward.dv.view()));
  EXPECT_TRUE(same_bits(got.backward.dgate_coarse.view(), want.backward.dgate_coarse.view()));
  EXPECT_TRUE(same_bits(got.backward.dgate_fine.view(), want.backward.dgate_fine.view()));
}

class Invariance : public BackendTest {};
VSA_FOR_EACH_BACKEND(Invariance);

TEST_P(Invariance, T13_EveryRunGivesTheSameBits) {
  VSA_NEEDS_BACKWARD;
  const Problem p;
  const Outcome first = run_both(context(), p);
  for (int repeat = 0; repeat < 100 && !HasFailure(); ++repeat) {
    expect_same_bits(run_both(context(), p), first);
  }
}

TEST_P(Invariance, T39_MemoryOrderDoesNotMatter) {
  VSA_NEEDS_BACKWARD;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const Outcome contiguous = run_both(context(), Problem(dtype));
    for (const Order order : kAllOrders) {
      expect_same_bits(run_both(context(), Problem(dtype, order)), contiguous);
    }
  }
}

/// Heads [first, first + count) of a tensor.
TestTensor heads_of(const TestTensor& x, int64_t first, int64_t count) {
  Dims dims = x.dims();
  dims.num_heads = count;
  TestTensor some(x.dtype(), dims, x.order());
  for (int64_t b = 0; b < dims.batch; ++b) {
    for (int64_t h = 0; h < count; ++h) {
      for (int64_t s = 0; s < dims.seq_len; ++s) {
        for (int64_t d = 0; d < dims.head_dim; ++d) {
          some.set(b, h, s, d, x.at(b, first + h, s, d));
        }
      }
    }
  }
  return some;
}

TEST_P(Invariance, HeadsDoNotSeeEachOther) {
  VSA_NEEDS_BACKWARD;
  const Problem p;
  const Outcome all = run_both(context(), p);
  for (const int64_t h_kv : {0, 1}) {
    const int64_t h = 2 * h_kv;
    Problem group = p;
    group.in.q = heads_of(p.in.q, h, 2);
    group.in.k = heads_of(p.in.k, h_kv, 1);
    group.in.v = heads_of(p.in.v, h_kv, 1);
    group.gate_coarse = heads_of(p.gate_coarse, h, 2);
    group.gate_fine = heads_of(p.gate_fine, h, 2);
    group.dout = heads_of(p.dout, h, 2);
    const Outcome alone = run_both(context(), group);
    EXPECT_TRUE(same_bits(heads_of(all.forward.out, h, 2).view(), alone.forward.out.view()));
    EXPECT_TRUE(same_bits(heads_of(all.backward.dq, h, 2).view(), alone.backward.dq.view()));
    EXPECT_TRUE(same_bits(heads_of(all.backward.dk, h_kv, 1).view(), alone.backward.dk.view()));
    EXPECT_TRUE(same_bits(heads_of(all.backward.dv, h_kv, 1).view(), alone.backward.dv.view()));
  }
}

TEST_P(Invariance, T18_PaddingIsNeverRead) {
  VSA_NEEDS_BACKWARD;
  // Two grids of the same padded size, with their padding filled with what would show.
  const auto run = [&](const Grid& grid, double padding) {
    const TilePlan plan = TilePlan::grid(grid, {4, 4, 4}).value().in_tile_order();
    const Heads heads{.num_heads = 2, .num_kv_heads = 1, .head_dim = 16};
    Problem p;
    p.q_plan = p.kv_plan = plan;
    p.in = make_qkv(DType::kF32, heads, plan, plan, 1);
    p.gate_coarse = token_tensor(DType::kF32, heads, plan, 4);
    p.gate_fine = token_tensor(DType::kF32, heads, plan, 5);
    p.dout = token_tensor(DType::kF32, heads, plan, 6);
    for (TestTensor* x : {&p.in.q, &p.in.k, &p.in.v, &p.gate_coarse, &p.gate_fine, &p.dout}) {
      fill_padding(*x, plan, padding);
    }
    Outcome outcome = run_both(context(), p);
    for (const TestTensor* x : {&outcome.forward.out, &outcome.backward.dq, &outcome.backward.dk,
                                &outcome.backward.dv, &outcome.backward.dgate_coarse}) {
      TestTensor zeroed = *x;
      fill_padding(zeroed, plan, 0.0);
      EXPECT_TRUE(same_bits(x->view(), zeroed.view())) << "padding is written as 0";
    }
    return outcome;
  };
  const Outcome clean = run({5, 6, 7}, 0.0);
  expect_same_bits(run({5, 6, 7}, 1e4), clean);
  expect_same_bits(run({5, 6, 7}, std::nan("")), clean);
  run({6, 5, 8}, 1e4);
  expect_same_bits(run({5, 6, 7}, std::nan("")), clean);
}

TEST_P(Invariance, PermutingTokensInsideATilePermutesRowsOnly) {
  VSA_NEEDS_FORWARD;
  const Problem p;
  const TilePlan plan = p.q_plan;
  Qkv in = make_qkv(DType::kF32, p.heads, plan, plan, 1);
  Qkv turned = in;
  // Reverses the tokens of every tile.
  const auto reversed = [&](const TestTensor& x) {
    TestTensor y = x;
    const Dims dims = x.dims();
    for (int64_t t = 0; t < plan.num_tiles(); ++t) {
      const auto tokens = plan.tokens(t);
      for (size_t slot = 0; slot < tokens.size(); ++slot) {
        const int32_t from = tokens[tokens.size() - 1 - slot];
        for (int64_t b = 0; b < dims.batch; ++b) {
          for (int64_t h = 0; h < dims.num_heads; ++h) {
            for (int64_t d = 0; d < dims.head_dim; ++d) {
              y.set(b, h, tokens[slot], d, x.at(b, h, from, d));
            }
          }
        }
      }
    }
    return y;
  };
  turned.q = reversed(in.q);
  turned.k = reversed(in.k);
  turned.v = reversed(in.v);
  const LutBuffer lut = random_lut(p.heads, plan.num_tiles(), plan.num_tiles(), 3);
  const AttentionOptions options{.gate_coarse = Gate::one(), .lut = lut.view()};
  Tolerance tolerance = attention_tolerance(turned, options, lut.view());
  for (double& bound : tolerance.bound) bound *= 2.0;  // both sides have that error
  expect_close(run_attention(context(), turned, options).out,
               reversed(run_attention(context(), in, options).out), tolerance);
}

TEST_P(Invariance, AGateOfZeroRemovesItsBranch) {
  VSA_NEEDS_BACKWARD;
  const Problem p;
  const TestTensor zeros = constant_tensor(DType::kF32, p.in.q.dims(), 0.0);
  for (const Gate& zero : {Gate::zero(), Gate::tensor(zeros.view())}) {
    AttentionOptions options{.gate_coarse = zero, .gate_fine = Gate::one(), .select = {.topk = 4}};
    const AttentionResult fine = run_attention(context(), p.in, options);
    EXPECT_TRUE(same_bits(fine.out.view(), fine.fine_out.view()));
    const Gradients want =
        run_fine_backward(context(), p.in, fine.lut.view(), {fine.fine_out, fine.lse}, p.dout);
    const AttentionGradients got = run_attention_backward(context(), p.in, options, fine, p.dout);
    const AttentionTolerance tolerance = attention_backward_tolerance(p.in, options, fine, p.dout);
    expect_close(got.dq, want.dq, tolerance.dq);
    expect_close(got.dk, want.dk, tolerance.dk);
    expect_close(got.dv, want.dv, tolerance.dv);

    // Without the fine branch no gradient depends on which tiles were kept.
    options.gate_coarse = Gate::one();
    options.gate_fine = zero;
    const AttentionResult some = run_attention(context(), p.in, options);
    options.select.topk = 1;
    const AttentionResult one = run_attention(context(), p.in, options);
    EXPECT_TRUE(same_bits(some.out.view(), one.out.view()));
    EXPECT_TRUE(same_bits(run_attention_backward(context(), p.in, options, some, p.dout).dk.view(),
                          run_attention_backward(context(), p.in, options, one, p.dout).dk.view()));
  }
}

TEST_P(Invariance, T11_GradientsOfPartialTilesAreFiniteAndZeroInPadding) {
  VSA_NEEDS_BACKWARD;
  const TilePlan plan = TilePlan::grid({5, 6, 7}, {4, 4, 4}).value().in_tile_order();
  const Heads heads{.num_heads = 2, .num_kv_heads = 2, .head_dim = 64};
  const Qkv in = make_qkv(DType::kF32, heads, plan, plan, 1);
  const TestTensor dout = token_tensor(DType::kF32, heads, plan, 5);
  const AttentionOptions options{.gate_coarse = Gate::one(), .select = {.topk = 3}};
  const AttentionResult forward = run_attention(context(), in, options);
  const AttentionGradients got = run_attention_backward(context(), in, options, forward, dout);

  AttentionResult wide = forward;
  wide.lse = forward.lse.as(DType::kF64);
  wide.fine_out = forward.fine_out.as(DType::kF64);
  const AttentionGradients want = run_attention_backward(
      {.backend = BackendId::kReference}, as_f64(in), options, wide, dout.as(DType::kF64));
  const AttentionTolerance tolerance = attention_backward_tolerance(in, options, forward, dout);
  expect_close(got.dq, want.dq, tolerance.dq);
  expect_close(got.dk, want.dk, tolerance.dk);
  expect_close(got.dv, want.dv, tolerance.dv);
  for (const TestTensor* x : {&got.dq, &got.dk, &got.dv}) {
    TestTensor zeroed = *x;
    fill_padding(zeroed, plan, 0.0);
    EXPECT_TRUE(same_bits(x->view(), zeroed.view()));
  }
}

}  // namespace
}  // namespace vsa::test
