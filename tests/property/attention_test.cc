// Properties of the whole operator, forward and backward.
#include <cmath>

#include "tests/support/backends.h"
#include "tests/support/magnitude.h"
#include "tests/support/problem.h"
#include "tests/support/tolerance.h"

namespace vsa::test {
namespace {

class Attention : public BackendTest {
 protected:
  void SetUp() override { VSA_NEEDS_BACKWARD; }
};
VSA_FOR_EACH_BACKEND(Attention);

const Heads kHeads{2, 4, 2, 32};

Qkv problem(const Heads& heads = kHeads, uint64_t seed = 1, DType dtype = DType::kF32) {
  return make_qkv(dtype, heads, TilePlan::grid({5, 6, 7}, {4, 4, 4}).value(),
                  TilePlan::grid({6, 5, 9}, {4, 4, 4}).value(), seed);
}

struct BothWays {
  AttentionResult forward;
  AttentionGradients gradients;
};

BothWays run(const Context& context, const Qkv& in, const AttentionOptions& options,
             const TestTensor& dout) {
  BothWays r{.forward = run_attention(context, in, options), .gradients = {}};
  r.gradients = run_attention_backward(context, in, options, r.forward, dout);
  return r;
}

void expect_same(const BothWays& a, const BothWays& b) {
  EXPECT_TRUE(same_lut(a.forward.lut.view(), b.forward.lut.view()));
  EXPECT_TRUE(same_bits(a.forward.out.view(), b.forward.out.view()));
  EXPECT_TRUE(same_bits(a.forward.lse.view(), b.forward.lse.view()));
  EXPECT_TRUE(same_bits(a.gradients.dq.view(), b.gradients.dq.view()));
  EXPECT_TRUE(same_bits(a.gradients.dk.view(), b.gradients.dk.view()));
  EXPECT_TRUE(same_bits(a.gradients.dv.view(), b.gradients.dv.view()));
  EXPECT_TRUE(same_bits(a.gradients.dgate_coarse.view(), b.gradients.dgate_coarse.view()));
  EXPECT_TRUE(same_bits(a.gradients.dgate_fine.view(), b.gradients.dgate_fine.view()));
}

TEST_P(Attention, SameBitsForAnyNumberOfThreadsAndEveryRun) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const Qkv in = problem(kHeads, 1, dtype);
    const TestTensor gate = token_tensor(dtype, kHeads, in.q_plan, 2);
    const TestTensor dout = token_tensor(dtype, kHeads, in.q_plan, 3);
    const AttentionOptions options{.gate_coarse = Gate::tensor(gate.view()), .select = {.topk = 3}};
    Context one = context();
    one.num_threads = 1;
    const BothWays first = run(one, in, options, dout);
    for (const int threads : {1, 2, 3, 7}) {
      Context many = context();
      many.num_threads = threads;
      expect_same(run(many, in, options, dout), first);
    }
  }
}

TEST_P(Attention, T19_ABatchIsItsItems) {
  const Qkv in = problem();
  const TestTensor dout = token_tensor(DType::kF32, kHeads, in.q_plan, 3);
  const AttentionOptions options{.select = {.topk = 3}};
  const BothWays both = run(context(), in, options, dout);
  for (const int64_t b : {0, 1}) {
    const Qkv alone{.q = batch_item(in.q, b),
                    .k = batch_item(in.k, b),
                    .v = batch_item(in.v, b),
                    .q_plan = in.q_plan,
                    .kv_plan = in.kv_plan};
    const BothWays one = run(context(), alone, options, batch_item(dout, b));
    EXPECT_TRUE(same_bits(batch_item(both.forward.out, b).view(), one.forward.out.view()));
    EXPECT_TRUE(same_bits(batch_item(both.gradients.dq, b).view(), one.gradients.dq.view()));
    EXPECT_TRUE(same_bits(batch_item(both.gradients.dk, b).view(), one.gradients.dk.view()));
    EXPECT_TRUE(same_bits(batch_item(both.gradients.dv, b).view(), one.gradients.dv.view()));
  }
}

/// k or v with every kv head repeated for the query heads that share it.
TestTensor repeat_heads(const TestTensor& x, int64_t group_size) {
  Dims dims = x.dims();
  dims.num_heads *= group_size;
  TestTensor wide(x.dtype(), dims);
  for (int64_t b = 0; b < dims.batch; ++b) {
    for (int64_t h = 0; h < dims.num_heads; ++h) {
      for (int64_t s = 0; s < dims.seq_len; ++s) {
        for (int64_t d = 0; d < dims.head_dim; ++d) {
          wide.set(b, h, s, d, x.at(b, h / group_size, s, d));
        }
      }
    }
  }
  return wide;
}

TEST_P(Attention, T25_SharedHeadsAreRepeatedHeads) {
  const Heads shared{1, 8, 2, 32};
  const Qkv in = problem(shared, 4);
  Qkv repeated = in;
  repeated.k = repeat_heads(in.k, 4);
  repeated.v = repeat_heads(in.v, 4);
  const AttentionOptions options{.select = {.topk = 3}};
  const AttentionResult a = run_attention(context(), in, options);
  const AttentionResult b = run_attention(context(), repeated, options);
  EXPECT_TRUE(same_lut(a.lut.view(), b.lut.view()));
  EXPECT_TRUE(same_bits(a.out.view(), b.out.view()));
  EXPECT_TRUE(same_bits(a.lse.view(), b.lse.view()));
}

TEST_P(Attention, T23_GatesWeighTheirBranch) {
  const Qkv in = problem(kHeads, 5);
  const SelectOptions select{.topk = in.kv_plan.num_tiles()};
  const auto out = [&](const Gate& coarse, const Gate& fine) {
    return run_attention(context(), in,
                         {.gate_coarse = coarse, .gate_fine = fine, .select = select})
        .out;
  };
  const LutBuffer all = all_tiles(in);
  const TestTensor fine_only = run_fine(context(), in, all.view()).out;
  // topk = all and the coarse branch off: dense attention. A tensor of zeros is the constant 0.
  EXPECT_TRUE(same_bits(out(Gate::zero(), Gate::one()).view(), fine_only.view()));
  const TestTensor zeros = constant_tensor(DType::kF32, in.q.dims(), 0.0);
  const TestTensor ones = constant_tensor(DType::kF32, in.q.dims(), 1.0);
  expect_close(out(Gate::tensor(zeros.view()), Gate::one()), fine_only, exact());
  EXPECT_TRUE(same_bits(out(Gate::tensor(ones.view()), Gate::tensor(ones.view())).view(),
                        out(Gate::one(), Gate::one()).view()));
  expect_close(out(Gate::zero(), Gate::tensor(zeros.view())), zeros, exact());
  // Dense with the coarse branch on is another function.
  EXPECT_GT(relative_l2(out(Gate::one(), Gate::one()).view(), fine_only.view()), 0.05);
}

TEST_P(Attention, ConstantValuesMakeEachBranchOne) {
  Qkv in = problem(kHeads, 6);
  in.v = constant_tensor(DType::kF32, in.v.dims(), 1.0);
  const AttentionOptions coarse{
      .gate_coarse = Gate::one(), .gate_fine = Gate::zero(), .select = {.topk = 2}};
  const AttentionResult got = run_attention(context(), in, coarse);
  expect_close(got.out, constant_tensor(DType::kF64, in.q.dims(), 1.0),
               attention_tolerance(in, coarse, got.lut.view()));
}

TEST_P(Attention, T39_MemoryOrderDoesNotMatter) {
  const TilePlan plan = TilePlan::grid({5, 6, 7}, {4, 4, 4}).value();
  const AttentionOptions options{.select = {.topk = 3}};
  for (const int64_t batch : {1, 2}) {
    const Heads heads{batch, 2, 2, 32};
    const AttentionResult want =
        run_attention(context(), make_qkv(DType::kBF16, heads, plan, plan, 7), options);
    for (const Order order : kAllOrders) {
      const AttentionResult got =
          run_attention(context(), make_qkv(DType::kBF16, heads, plan, plan, 7, order), options);
      EXPECT_TRUE(same_bits(got.out.view(), want.out.view())) << static_cast<int>(order);
    }
  }
}

TEST_P(Attention, T43_PackedPrefixWithForcedTilesAndDenseRows) {
  const std::vector<int64_t> segments{77, 0, 130};
  const TilePlan plan = TilePlan::packed(segments, {5, 6, 7}, {4, 4, 4}).value();
  const Heads heads{1, 2, 1, 32};
  const Qkv in = make_qkv(DType::kF32, heads, plan, plan, 8);
  const std::vector<int32_t> prefix{0, 1, 2, 3, 4};
  const AttentionOptions options{
      .select = {.topk = 1, .forced_columns = prefix, .dense_rows = prefix}};
  const AttentionResult got = run_attention(context(), in, options);
  for (int64_t i = 0; i < plan.num_tiles(); ++i) {
    EXPECT_EQ(got.lut.view().count[i], i < 5 ? 13 : 6) << i;
  }
  const AttentionOptions same{.lut = got.lut.view()};
  expect_close(got.out, run_attention({.backend = BackendId::kReference}, as_f64(in), same).out,
               attention_tolerance(in, same, got.lut.view()));
}

TEST_P(Attention, T12_GradientsOfLargeInputs) {
  const Heads heads{1, 2, 2, 128};
  const TilePlan plan = TilePlan::grid({8, 8, 4}, {4, 4, 4}).value();
  for (const double factor : {1.0, 4.0, 16.0}) {
    Qkv in = make_qkv(DType::kBF16, heads, plan, plan, 9);
    for (TestTensor* x : {&in.q, &in.k}) {
      *x = x->map([=](double e) { return factor * e; }).as(DType::kBF16);
    }
    const TestTensor dout = token_tensor(DType::kBF16, heads, plan, 10);
    const LutBuffer lut = lut_of_rows(1, 2, {{0, 2}, {1, 3}, {0, 1, 2}, {3}});
    const AttentionOptions options{.gate_coarse = Gate::zero(), .lut = lut.view()};
    const BothWays got = run(context(), in, options, dout);
    const BothWays want =
        run({.backend = BackendId::kReference}, as_f64(in), options, dout.as(DType::kF64));
    SCOPED_TRACE(factor);
    EXPECT_LT(relative_l2(got.gradients.dq.view(), want.gradients.dq.view()), 5e-2);
    EXPECT_LT(relative_l2(got.gradients.dk.view(), want.gradients.dk.view()), 5e-2);
    EXPECT_LT(relative_l2(got.gradients.dv.view(), want.gradients.dv.view()), 5e-2);
  }
}

TEST_P(Attention, T11_GradientsOfPartialTiles) {
  const Heads heads{1, 2, 2, 64};
  const std::vector<int32_t> lens{64, 31, 5, 48, 0, 33};
  const TilePlan plan = TilePlan::tiled(lens, 64).value();
  const Qkv in = make_qkv(DType::kF32, heads, plan, plan, 11);
  TestTensor dout = token_tensor(DType::kF32, heads, plan, 12);  // padding is NaN
  const AttentionOptions options{.select = {.topk = 3}};
  const BothWays got = run(context(), in, options, dout);
  for (const TestTensor* x : {&got.gradients.dq, &got.gradients.dk, &got.gradients.dv}) {
    for (const double value : x->values()) ASSERT_TRUE(std::isfinite(value));
    for (int64_t d = 0; d < 64; ++d) EXPECT_EQ(x->at(0, 1, 64 + 31, d), 0.0);
  }
}

}  // namespace
}  // namespace vsa::test
