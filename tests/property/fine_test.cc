// Properties of the fine stage.
#include <cmath>
#include <limits>

#include "tests/support/backends.h"
#include "tests/support/magnitude.h"
#include "tests/support/problem.h"
#include "tests/support/tolerance.h"

namespace vsa::test {
namespace {

class Fine : public BackendTest {
 protected:
  void SetUp() override { VSA_NEEDS(fine); }
};
VSA_FOR_EACH_BACKEND(Fine);

const Heads kHeads{2, 4, 2, 24};

TilePlan plan_of(Grid grid) { return TilePlan::grid(grid, {2, 4, 4}).value(); }

/// Dense attention by its definition, without tiles: what topk = all must equal.
TestTensor dense(const Qkv& in) {
  TestTensor out(DType::kF64, in.q.dims());
  const Dims q = in.q.dims();
  const int64_t group_size = q.num_heads / in.k.dims().num_heads;
  for (int64_t b = 0; b < q.batch; ++b) {
    for (int64_t h = 0; h < q.num_heads; ++h) {
      for (int64_t i = 0; i < q.seq_len; ++i) {
        std::vector<double> weight;
        double sum = 0.0;
        for (int64_t j = 0; j < in.k.dims().seq_len; ++j) {
          double score = 0.0;
          for (int64_t d = 0; d < q.head_dim; ++d) {
            score += in.q.at(b, h, i, d) * in.k.at(b, h / group_size, j, d);
          }
          weight.push_back(std::exp(score * default_scale(q.head_dim)));
          sum += weight.back();
        }
        for (int64_t d = 0; d < q.head_dim; ++d) {
          double x = 0.0;
          for (int64_t j = 0; j < in.k.dims().seq_len; ++j) {
            x += weight[static_cast<size_t>(j)] / sum * in.v.at(b, h / group_size, j, d);
          }
          out.set(b, h, i, d, x);
        }
      }
    }
  }
  return out;
}

TEST_P(Fine, WithAllTilesItIsDenseAttention) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    const Qkv in = make_qkv(dtype, kHeads, plan_of({3, 5, 6}), plan_of({4, 7, 5}), 1);
    const LutBuffer lut = all_tiles(in);
    expect_close(run_fine(context(), in, lut.view()).out, dense(in),
                 fine_tolerance(in, lut.view()).out);
  }
}

TEST_P(Fine, T30_KeepingOneTileIsNotDense) {
  const Qkv in = make_qkv(DType::kF16, {1, 2, 2, 64}, TilePlan::grid({8, 8, 8}, {4, 4, 4}).value(),
                          TilePlan::grid({8, 8, 8}, {4, 4, 4}).value(), 2);
  const LutBuffer one = lut_of_rows(1, 2, std::vector<std::vector<int32_t>>(8, {0}));
  const TestTensor got = run_fine(context(), in, one.view()).out;
  const TestTensor want = run_fine({.backend = BackendId::kReference}, as_f64(in), one.view()).out;
  expect_close(got, want, fine_tolerance(in, one.view()).out);
  EXPECT_GT(relative_l2(got.view(), dense(in).view()), 0.1);
}

TEST_P(Fine, T18_PaddingIsNeverRead) {
  const std::vector<int32_t> q_lens{32, 5, 0, 17};
  const std::vector<int32_t> kv_lens{1, 32, 0, 31, 9};
  Qkv in = make_qkv(DType::kF32, kHeads, TilePlan::tiled(q_lens, 32).value(),
                    TilePlan::tiled(kv_lens, 32).value(), 3);  // padding is NaN
  const LutBuffer lut = random_lut(kHeads, 4, 5, 3);
  const FineResult poisoned = run_fine(context(), in, lut.view());
  for (TestTensor* x : {&in.k, &in.v}) fill_padding(*x, in.kv_plan, 1e4);
  fill_padding(in.q, in.q_plan, -1e4);
  const FineResult filled = run_fine(context(), in, lut.view());
  EXPECT_TRUE(same_bits(filled.out.view(), poisoned.out.view()));
  EXPECT_TRUE(same_bits(filled.lse.view(), poisoned.lse.view()));
  // Padding rows of the output are 0.
  for (int64_t s = 37; s < 96; ++s) EXPECT_EQ(filled.out.at(1, 3, s, 23), 0.0) << s;
}

TEST_P(Fine, T16_ARowWithoutTiles) {
  const Heads heads{1, 2, 2, 64};
  const Qkv in = make_qkv(DType::kF32, heads, plan_of({2, 4, 8}), plan_of({2, 4, 8}), 4);
  const LutBuffer lut = lut_of_rows(1, 2, {{}, {0, 1}});
  const FineResult forward = run_fine(context(), in, lut.view());
  const TestTensor dout = token_tensor(DType::kF32, heads, in.q_plan, 5);
  const Gradients gradients = run_fine_backward(context(), in, lut.view(), forward, dout);
  for (const int32_t s : in.q_plan.tokens(0)) {
    EXPECT_EQ(forward.lse.at(0, 1, s, 0), -std::numeric_limits<double>::infinity());
    for (int64_t d = 0; d < 64; ++d) {
      EXPECT_EQ(forward.out.at(0, 1, s, d), 0.0);
      EXPECT_EQ(gradients.dq.at(0, 1, s, d), 0.0);
    }
  }
  for (const TestTensor* x : {&gradients.dq, &gradients.dk, &gradients.dv}) {
    for (const double value : x->values()) EXPECT_TRUE(std::isfinite(value));
  }
}

TEST_P(Fine, T17_AnEmptyTileIsAsIfLeftOut) {
  const std::vector<int32_t> kv_lens{64, 0, 64};
  const Heads heads{1, 2, 2, 64};
  const Qkv in = make_qkv(DType::kF32, heads, TilePlan::grid({4, 4, 8}, {4, 4, 4}).value(),
                          TilePlan::tiled(kv_lens, 64).value(), 6);
  const FineResult with = run_fine(context(), in, lut_of_rows(1, 2, {{0, 1, 2}, {0, 1, 2}}).view());
  const FineResult without = run_fine(context(), in, lut_of_rows(1, 2, {{0, 2}, {0, 2}}).view());
  EXPECT_TRUE(same_bits(with.out.view(), without.out.view()));
  EXPECT_TRUE(same_bits(with.lse.view(), without.lse.view()));
  const FineResult only = run_fine(context(), in, lut_of_rows(1, 2, {{1}, {1}}).view());
  for (const double x : only.out.values()) EXPECT_EQ(x, 0.0);
}

TEST_P(Fine, ConstantValuesComeBack) {
  Qkv in = make_qkv(DType::kF32, kHeads, plan_of({3, 5, 6}), plan_of({4, 7, 5}), 7);
  in.v = constant_tensor(DType::kF32, in.v.dims(), 1.0);
  const LutBuffer lut = all_tiles(in);
  const TestTensor ones = constant_tensor(DType::kF64, in.q.dims(), 1.0);
  expect_close(run_fine(context(), in, lut.view()).out, ones, fine_tolerance(in, lut.view()).out);
}

TEST_P(Fine, IsLinearInTheValues) {
  Qkv a = make_qkv(DType::kF32, kHeads, plan_of({3, 5, 6}), plan_of({4, 7, 5}), 8);
  Qkv b = a;
  b.v = token_tensor(DType::kF32, {2, 2, 2, 24}, a.kv_plan, 9);
  Qkv both = a;
  // Halves and quarters of small integers add without rounding.
  const auto coarse = [](double x) { return std::round(4.0 * x) / 4.0; };
  a.v = a.v.map(coarse).as(DType::kF32);
  b.v = b.v.map(coarse).as(DType::kF32);
  both.v = sum(a.v, b.v).as(DType::kF32);
  const LutBuffer lut = random_lut(kHeads, a.q_plan.num_tiles(), a.kv_plan.num_tiles(), 8);
  const TestTensor want =
      sum(run_fine(context(), a, lut.view()).out, run_fine(context(), b, lut.view()).out);
  Tolerance tolerance = fine_tolerance(a, lut.view()).out;
  const Tolerance other = fine_tolerance(b, lut.view()).out;
  const Tolerance third = fine_tolerance(both, lut.view()).out;
  for (size_t i = 0; i < tolerance.bound.size(); ++i) {
    tolerance.bound[i] += other.bound[i] + third.bound[i];
  }
  expect_close(run_fine(context(), both, lut.view()).out, want, tolerance);
}

TEST_P(Fine, AVectorAddedToAllKeysChangesNothing) {
  const Qkv in = make_qkv(DType::kF32, kHeads, plan_of({3, 5, 6}), plan_of({4, 7, 5}), 10);
  Qkv moved = in;
  for (int64_t s = 0; s < in.k.dims().seq_len; ++s) {
    for (int64_t d = 0; d < 24; ++d) {
      moved.k.set(1, 0, s, d, in.k.at(1, 0, s, d) + 0.25 * static_cast<double>(d % 5));
    }
  }
  const LutBuffer lut = random_lut(kHeads, in.q_plan.num_tiles(), in.kv_plan.num_tiles(), 10);
  // The sums k + c round to f32, an error in the scores like that of the products themselves.
  Tolerance tolerance = fine_tolerance(moved, lut.view()).out;
  const Tolerance other = fine_tolerance(in, lut.view()).out;
  for (size_t i = 0; i < tolerance.bound.size(); ++i) tolerance.bound[i] += other.bound[i];
  expect_close(run_fine(context(), moved, lut.view()).out, run_fine(context(), in, lut.view()).out,
               tolerance);
}

TEST_P(Fine, PermutingQueriesInATilePermutesRowsOnly) {
  const Qkv in = make_qkv(DType::kF32, kHeads, plan_of({2, 4, 8}), plan_of({4, 7, 5}), 11);
  Qkv turned = in;
  const auto tokens = in.q_plan.tokens(1);
  const auto partner = [&](size_t slot) { return tokens[tokens.size() - 1 - slot]; };
  for (size_t slot = 0; slot < tokens.size(); ++slot) {
    for (int64_t d = 0; d < 24; ++d) {
      turned.q.set(0, 1, tokens[slot], d, in.q.at(0, 1, partner(slot), d));
    }
  }
  const LutBuffer lut = random_lut(kHeads, in.q_plan.num_tiles(), in.kv_plan.num_tiles(), 11);
  const TestTensor a = run_fine(context(), in, lut.view()).out;
  const TestTensor b = run_fine(context(), turned, lut.view()).out;
  for (size_t slot = 0; slot < tokens.size(); ++slot) {
    for (int64_t d = 0; d < 24; ++d) {
      EXPECT_EQ(b.at(0, 1, tokens[slot], d), a.at(0, 1, partner(slot), d));
    }
  }
  EXPECT_EQ(b.at(1, 1, tokens[0], 3), a.at(1, 1, tokens[0], 3));
}

TEST_P(Fine, T14_QueriesAndKeysOfOtherLengths) {
  const std::vector<int32_t> q_lens(3, 64);
  const std::vector<int32_t> kv_lens(7, 64);
  const Qkv in = make_qkv(DType::kF32, {2, 3, 3, 128}, TilePlan::tiled(q_lens, 64).value(),
                          TilePlan::tiled(kv_lens, 64).value(), 12);
  const LutBuffer lut = random_lut({2, 3, 3, 128}, 3, 7, 12);
  expect_close(run_fine(context(), in, lut.view()).out,
               run_fine({.backend = BackendId::kReference}, as_f64(in), lut.view()).out,
               fine_tolerance(in, lut.view()).out);
}

}  // namespace
}  // namespace vsa::test
