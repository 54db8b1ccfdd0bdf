// src/reference/combine.cc by hand, and its gradients.
#include "tests/unit/reference/reference_test.h"

namespace vsa::test {
namespace {

using Values = std::vector<double>;

TEST(ReferenceCombine, WeighsBothBranches) {
  const std::vector<int32_t> tile_len{2, 1};
  const TilePlan plan = TilePlan::tiled(tile_len, 2).value();
  const double nan = std::nan("");
  const TestTensor fine_out = rows_of({1, 2, 3, nan});
  const TestTensor coarse_out = rows_of({10, 20});
  const TestTensor gate_coarse = rows_of({0.5, 1, 2, nan});
  const TestTensor gate_fine = rows_of({1, 0, -1, nan});
  EXPECT_EQ(column(run_combine(kReference, fine_out, coarse_out, Gate::tensor(gate_coarse.view()),
                               Gate::tensor(gate_fine.view()), plan)),
            (Values{6, 10, 37, 0}));
  EXPECT_EQ(column(run_combine(kReference, fine_out, coarse_out, Gate::zero(), Gate::one(), plan)),
            (Values{1, 2, 3, 0}));
  EXPECT_EQ(column(run_combine(kReference, fine_out, coarse_out, Gate::one(), Gate::zero(), plan)),
            (Values{10, 10, 20, 0}));
}

TEST(ReferenceCombine, AZeroGateDoesNotReadItsBranch) {
  const TestTensor ones = rows_of({1, 1, 1, 1, 1, 1, 1, 1, 1});
  EXPECT_EQ(
      column(run_combine(kReference, ones, constant_tensor(DType::kF64, {1, 1, 4, 8}, std::nan("")),
                         Gate::zero(), Gate::one(), small_plan())),
      column(ones));
  EXPECT_EQ(column(run_combine(kReference, constant_tensor(DType::kF64, {1, 1, 9, 8}, std::nan("")),
                               rows_of({1, 1, 1, 1}), Gate::one(), Gate::zero(), small_plan())),
            column(ones));
}

TEST(ReferenceCombine, GradientsMatchDifferences) {
  const Heads heads{.batch = 2, .num_heads = 1};
  const TilePlan plan = small_plan().in_tile_order();
  TestTensor fine_out = token_tensor(DType::kF64, heads, plan, 1);
  TestTensor coarse_out = normal_tensor(DType::kF64, {2, 1, 4, 8}, 2);
  TestTensor gate_coarse = token_tensor(DType::kF64, heads, plan, 3);
  TestTensor gate_fine = token_tensor(DType::kF64, heads, plan, 4);
  const TestTensor weights = token_tensor(DType::kF64, heads, plan, 5);
  const auto loss = [&] {
    return weighted_sum(
        run_combine(kReference, fine_out, coarse_out, Gate::tensor(gate_coarse.view()),
                    Gate::tensor(gate_fine.view()), plan),
        weights);
  };
  const CombineGradients analytic =
      run_combine_backward(kReference, fine_out, coarse_out, Gate::tensor(gate_coarse.view()),
                           Gate::tensor(gate_fine.view()), plan, weights);
  expect_gradient(analytic.dfine_out, fine_out, loss);
  expect_gradient(analytic.dcoarse_out, coarse_out, loss);
  expect_gradient(analytic.dgate_coarse, gate_coarse, loss);
  expect_gradient(analytic.dgate_fine, gate_fine, loss);
}

}  // namespace
}  // namespace vsa::test
