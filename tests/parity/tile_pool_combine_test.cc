// Parity of the stages that only move and weigh: tile, untile, pool, combine.
#include <cmath>

#include "tests/parity/parity.h"

namespace vsa::test {
namespace {

class TileParity : public ParityTest {};
VSA_PARITY(TileParity);

TEST_P(TileParity, BothWays) {
  VSA_NEEDS(tile);
  VSA_NEEDS(untile);
  const TilePlan plan = shape().q_plan();
  for (const DType dtype : kTokenDtypes) {
    SCOPED_TRACE(name(dtype));
    const TestTensor x = like_q(dtype, 1);
    const TestTensor tiled = run_tile(context(), x, plan);
    EXPECT_TRUE(same_bits(tiled.view(), run_tile(kReference, x, plan).view()));
    TestTensor padded = tiled;
    fill_padding(padded, plan.in_tile_order(), std::nan(""));
    EXPECT_TRUE(same_bits(run_untile(context(), padded, plan).view(), x.view()));
  }
}

class PoolParity : public ParityTest {};
VSA_PARITY(PoolParity);

TEST_P(PoolParity, Forward) {
  VSA_NEEDS(pool);
  for (const TilePlan& plan : {shape().q_plan(), shape().q_plan().in_tile_order()}) {
    for (const DType dtype : kTokenDtypes) {
      SCOPED_TRACE(name(dtype));
      const TestTensor x = token_tensor(dtype, shape().heads, plan, 1, shape().order);
      expect_close(run_pool(context(), x, plan), run_pool(kReference, x.as(DType::kF64), plan),
                   pool_tolerance(x, plan));
    }
  }
}

TEST_P(PoolParity, Backward) {
  VSA_NEEDS(pool_backward);
  const Heads& heads = shape().heads;
  for (const TilePlan& plan : {shape().q_plan(), shape().q_plan().in_tile_order()}) {
    const TestTensor dpooled =
        normal_tensor(DType::kF32, {heads.batch, heads.num_heads, plan.num_tiles(), heads.head_dim},
                      1, shape().order);
    for (const DType dtype : kTokenDtypes) {
      SCOPED_TRACE(name(dtype));
      expect_close(run_pool_backward(context(), dpooled, plan, dtype),
                   run_pool_backward(kReference, dpooled.as(DType::kF64), plan, DType::kF64),
                   pool_backward_tolerance(dpooled, plan, dtype));
    }
  }
}

class CombineParity : public ParityTest {
 protected:
  TestTensor coarse_out() const {
    const Heads& heads = shape().heads;
    return normal_tensor(
        DType::kF32, {heads.batch, heads.num_heads, shape().q_plan().num_tiles(), heads.head_dim},
        2, shape().order);
  }
};
VSA_PARITY(CombineParity);

TEST_P(CombineParity, Forward) {
  VSA_NEEDS(combine);
  const TilePlan plan = shape().q_plan();
  for (const DType dtype : kTokenDtypes) {
    SCOPED_TRACE(name(dtype));
    const TestTensor fine_out = like_q(dtype, 1);
    const TestTensor gate_coarse = like_q(dtype, 3);
    const TestTensor gate_fine = like_q(dtype, 4);
    const TestTensor wide_coarse = gate_coarse.as(DType::kF64);
    const TestTensor wide_fine = gate_fine.as(DType::kF64);
    const Gate constants[] = {Gate::zero(), Gate::constant(-0.375F)};
    const auto check = [&](const Gate& coarse, const Gate& fine, const Gate& coarse_f64,
                           const Gate& fine_f64) {
      expect_close(run_combine(context(), fine_out, coarse_out(), coarse, fine, plan),
                   run_combine(kReference, fine_out.as(DType::kF64), coarse_out().as(DType::kF64),
                               coarse_f64, fine_f64, plan),
                   combine_tolerance(fine_out, coarse_out(), coarse, fine, plan));
    };
    check(Gate::tensor(gate_coarse.view()), Gate::tensor(gate_fine.view()),
          Gate::tensor(wide_coarse.view()), Gate::tensor(wide_fine.view()));
    for (const Gate& constant : constants) {
      check(Gate::tensor(gate_coarse.view()), constant, Gate::tensor(wide_coarse.view()), constant);
      check(constant, Gate::tensor(gate_fine.view()), constant, Gate::tensor(wide_fine.view()));
      check(constant, Gate::one(), constant, Gate::one());
    }
  }
}

TEST_P(CombineParity, Backward) {
  VSA_NEEDS(combine_backward);
  const TilePlan plan = shape().q_plan();
  for (const DType dtype : kTokenDtypes) {
    SCOPED_TRACE(name(dtype));
    const TestTensor fine_out = like_q(dtype, 1);
    const TestTensor gate_coarse = like_q(dtype, 3);
    const TestTensor gate_fine = like_q(dtype, 4);
    const TestTensor dout = like_q(dtype, 5);
    const TestTensor wide_coarse = gate_coarse.as(DType::kF64);
    const TestTensor wide_fine = gate_fine.as(DType::kF64);
    const auto check = [&](const Gate& coarse, const Gate& fine, const Gate& coarse_f64,
                           const Gate& fine_f64) {
      const CombineGradients got =
          run_combine_backward(context(), fine_out, coarse_out(), coarse, fine, plan, dout);
      const CombineGradients want =
          run_combine_backward(kReference, fine_out.as(DType::kF64), coarse_out().as(DType::kF64),
                               coarse_f64, fine_f64, plan, dout.as(DType::kF64));
      const CombineTolerance tolerance =
          combine_backward_tolerance(fine_out, coarse_out(), coarse, fine, plan, dout);
      expect_close(got.dfine_out, want.dfine_out, tolerance.dfine_out);
      expect_close(got.dcoarse_out, want.dcoarse_out, tolerance.dcoarse_out);
      expect_close(got.dgate_coarse, want.dgate_coarse, tolerance.dgate_coarse);
      expect_close(got.dgate_fine, want.dgate_fine, tolerance.dgate_fine);
    };
    check(Gate::tensor(gate_coarse.view()), Gate::tensor(gate_fine.view()),
          Gate::tensor(wide_coarse.view()), Gate::tensor(wide_fine.view()));
    check(Gate::zero(), Gate::constant(0.5F), Gate::zero(), Gate::constant(0.5F));
  }
}

}  // namespace
}  // namespace vsa::test
