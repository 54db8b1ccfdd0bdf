// The specification's gradients against central differences, in fp64. The other backends are held
// to the specification by the parity tests.
#include <cmath>
#include <functional>

#include "tests/support/compare.h"
#include "tests/support/problem.h"

namespace vsa::test {
namespace {

constexpr Context kReference{.backend = BackendId::kReference};
const Heads kHeads{1, 2, 1, 8};

/// sum of the elements of a * b at valid positions (NaN padding excluded).
double inner(const TestTensor& a, const TestTensor& b) {
  const auto x = a.values(), y = b.values();
  double total = 0.0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (!std::isnan(x[i]) && !std::isnan(y[i])) total += x[i] * y[i];
  }
  return total;
}

/// d loss / d x for every element of x by (loss(x + h) - loss(x - h)) / 2h. With h = 2^-17 the
/// truncation is h^2 ~ 6e-11 of the third derivative and the rounding 1e-16 / h ~ 1e-11 of the
/// loss.
TestTensor differences(TestTensor& x, const std::function<double()>& loss) {
  constexpr double kStep = 0x1p-17;
  const std::vector<double> values = x.values();
  std::vector<double> gradient(values.size(), 0.0);
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i])) continue;  // padding
    std::vector<double> moved = values;
    moved[i] = values[i] + kStep;
    x.set_values(moved);
    const double above = loss();
    moved[i] = values[i] - kStep;
    x.set_values(moved);
    gradient[i] = (above - loss()) / (2.0 * kStep);
  }
  x.set_values(values);
  TestTensor result(DType::kF64, x.dims());
  result.set_values(gradient);
  return result;
}

/// See differences(): the loss is a sum of about 1e3 terms of size 1.
Tolerance difference_tolerance() {
  return {.bound = {2e-8}, .origin = "h^2 f''' / 6 + rounding of the loss / h, h = 2^-17"};
}

/// Partial tiles, Sq != Sk, an empty kv tile, padding in the sequence.
Qkv problem() {
  const std::vector<int32_t> kv_lens{4, 0, 2, 3};
  return make_qkv(DType::kF64, kHeads, TilePlan::grid({1, 3, 5}, {1, 2, 2}).value(),
                  TilePlan::tiled(kv_lens, 4).value(), 1);
}

TEST(CentralDifferences, Pool) {
  const TilePlan plan = TilePlan::grid({2, 3, 3}, {2, 2, 2}).value();
  TestTensor x = token_tensor(DType::kF64, kHeads, plan, 2);
  const TestTensor dpooled = normal_tensor(DType::kF64, {1, 2, plan.num_tiles(), 8}, 3);
  const auto loss = [&] { return inner(run_pool(kReference, x, plan), dpooled); };
  expect_close(run_pool_backward(kReference, dpooled, plan, DType::kF64), differences(x, loss),
               difference_tolerance());
}

TEST(CentralDifferences, Coarse) {
  Qkv in = problem();
  in.q = normal_tensor(DType::kF64, {1, 2, in.q_plan.num_tiles(), 8}, 4);
  in.k = normal_tensor(DType::kF64, {1, 1, 4, 8}, 5);
  in.v = normal_tensor(DType::kF64, {1, 1, 4, 8}, 6);
  const TestTensor dout = normal_tensor(DType::kF64, in.q.dims(), 7);
  const auto loss = [&] {
    return inner(run_coarse(kReference, in.q, in.k, in.v, in.kv_plan).out, dout);
  };
  const Gradients got = run_coarse_backward(kReference, in, dout);
  expect_close(got.dq, differences(in.q, loss), difference_tolerance());
  expect_close(got.dk, differences(in.k, loss), difference_tolerance());
  expect_close(got.dv, differences(in.v, loss), difference_tolerance());
}

TEST(CentralDifferences, Fine) {
  Qkv in = problem();
  const LutBuffer lut = random_lut(kHeads, in.q_plan.num_tiles(), 4, 8);
  const TestTensor dout = token_tensor(DType::kF64, kHeads, in.q_plan, 9);
  const auto loss = [&] { return inner(run_fine(kReference, in, lut.view()).out, dout); };
  const FineResult forward = run_fine(kReference, in, lut.view());
  const Gradients got = run_fine_backward(kReference, in, lut.view(), forward, dout);
  expect_close(got.dq, differences(in.q, loss), difference_tolerance());
  expect_close(got.dk, differences(in.k, loss), difference_tolerance());
  expect_close(got.dv, differences(in.v, loss), difference_tolerance());
}

TEST(CentralDifferences, Combine) {
  const TilePlan plan = TilePlan::grid({1, 3, 5}, {1, 2, 2}).value();
  TestTensor fine_out = token_tensor(DType::kF64, kHeads, plan, 10);
  TestTensor gate_coarse = token_tensor(DType::kF64, kHeads, plan, 11);
  TestTensor gate_fine = token_tensor(DType::kF64, kHeads, plan, 12);
  TestTensor coarse_out = normal_tensor(DType::kF64, {1, 2, plan.num_tiles(), 8}, 13);
  const TestTensor dout = token_tensor(DType::kF64, kHeads, plan, 14);
  const auto loss = [&] {
    return inner(run_combine(kReference, fine_out, coarse_out, Gate::tensor(gate_coarse.view()),
                             Gate::tensor(gate_fine.view()), plan),
                 dout);
  };
  const CombineGradients got =
      run_combine_backward(kReference, fine_out, coarse_out, Gate::tensor(gate_coarse.view()),
                           Gate::tensor(gate_fine.view()), plan, dout);
  expect_close(got.dfine_out, differences(fine_out, loss), difference_tolerance());
  expect_close(got.dcoarse_out, differences(coarse_out, loss), difference_tolerance());
  expect_close(got.dgate_coarse, differences(gate_coarse, loss), difference_tolerance());
  expect_close(got.dgate_fine, differences(gate_fine, loss), difference_tolerance());
}

TEST(CentralDifferences, WholeOperatorWithTheSelectionHeld) {
  Qkv in = problem();
  TestTensor gate_coarse = token_tensor(DType::kF64, kHeads, in.q_plan, 15);
  TestTensor gate_fine = token_tensor(DType::kF64, kHeads, in.q_plan, 16);
  const TestTensor dout = token_tensor(DType::kF64, kHeads, in.q_plan, 17);
  const LutBuffer lut = random_lut(kHeads, in.q_plan.num_tiles(), 4, 18);
  const auto options = [&] {
    return AttentionOptions{.gate_coarse = Gate::tensor(gate_coarse.view()),
                            .gate_fine = Gate::tensor(gate_fine.view()),
                            .lut = lut.view()};
  };
  const auto loss = [&] { return inner(run_attention(kReference, in, options()).out, dout); };
  const AttentionResult forward = run_attention(kReference, in, options());
  const AttentionGradients got = run_attention_backward(kReference, in, options(), forward, dout);
  expect_close(got.dq, differences(in.q, loss), difference_tolerance());
  expect_close(got.dk, differences(in.k, loss), difference_tolerance());
  expect_close(got.dv, differences(in.v, loss), difference_tolerance());
  expect_close(got.dgate_coarse, differences(gate_coarse, loss), difference_tolerance());
  expect_close(got.dgate_fine, differences(gate_fine, loss), difference_tolerance());
}

}  // namespace
}  // namespace vsa::test
