// Parity of the whole operator's gradients on the CUDA backend with the fp64 reference, both given
// what the reference's forward gave.
#include <cmath>
#include <limits>

#include "tests/gpu/cases.h"
#include "tests/support/compare.h"

namespace vsa::test::gpu {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// Gates and dout of a call, and the same in f64.
struct BackwardProblem {
  Qkv in;
  TestTensor dout, gate_coarse, gate_fine;
  TestTensor wide_coarse, wide_fine;
  LutBuffer lut;
  AttentionResult forward;

  AttentionResult wide_forward() const {
    return {.out = forward.out,
            .lse = forward.lse.as(DType::kF64),
            .fine_out = forward.fine_out.as(DType::kF64),
            .lut = lut};
  }
};

/// Gates as a call gets them: a tensor, or a constant if `constant` is set.
struct GateChoice {
  std::optional<float> constant;
  Gate of(const TestTensor& tensor) const {
    return constant ? Gate::constant(*constant) : Gate::tensor(tensor.view());
  }
};

class GpuBackward : public GpuTest {
 protected:
  BackwardProblem problem(DType dtype) const {
    BackwardProblem p{.in = qkv(dtype),
                      .dout = like_q(dtype, 7),
                      .gate_coarse = like_q(dtype, 5),
                      .gate_fine = like_q(dtype, 6),
                      .wide_coarse = {},
                      .wide_fine = {},
                      .lut = lut(),
                      .forward = {}};
    p.wide_coarse = p.gate_coarse.as(DType::kF64);
    p.wide_fine = p.gate_fine.as(DType::kF64);
    p.forward = test::run_attention(kReference, p.in, {.lut = p.lut.view()});
    fill_padding(p.forward.fine_out, p.in.q_plan, kNan);
    fill_padding(p.forward.lse, p.in.q_plan, kNan);
    return p;
  }

  void expect_right(const BackwardProblem& p, const GateChoice& coarse,
                    const GateChoice& fine) const {
    const AttentionOptions options{.gate_coarse = coarse.of(p.gate_coarse),
                                   .gate_fine = fine.of(p.gate_fine),
                                   .lut = p.lut.view()};
    const AttentionOptions wide{.gate_coarse = coarse.of(p.wide_coarse),
                                .gate_fine = fine.of(p.wide_fine),
                                .lut = p.lut.view()};
    const AttentionGradients got = gpu::run_attention_backward(p.in, options, p.forward, p.dout);
    const AttentionGradients want = test::run_attention_backward(
        kReference, as_f64(p.in), wide, p.wide_forward(), p.dout.as(DType::kF64));
    const AttentionTolerance tolerance =
        attention_backward_tolerance(p.in, options, p.forward, p.dout);
    expect_close(got.dq, want.dq, tolerance.dq);
    expect_close(got.dk, want.dk, tolerance.dk);
    expect_close(got.dv, want.dv, tolerance.dv);
    expect_close(got.dgate_coarse, want.dgate_coarse, tolerance.dgate_coarse);
    expect_close(got.dgate_fine, want.dgate_fine, tolerance.dgate_fine);
  }
};
VSA_FOR_EACH_GPU_CASE(GpuBackward);

TEST_P(GpuBackward, GatesThatAreTensors) {
  VSA_NEEDS_GPU;
  for (const DType dtype : kTokenDtypes) {
    SCOPED_TRACE(name(dtype));
    const BackwardProblem p = problem(dtype);
    expect_right(p, {}, {.constant = 1.0F});
    expect_right(p, {}, {});
  }
}

TEST_P(GpuBackward, GatesThatAreConstants) {
  VSA_NEEDS_GPU;
  const BackwardProblem p = problem(DType::kBF16);
  expect_right(p, {.constant = 0.5F}, {.constant = -2.0F});
  expect_right(p, {.constant = 0.0F}, {.constant = 1.0F});
  expect_right(p, {.constant = 1.0F}, {.constant = 0.0F});
  expect_right(p, {.constant = 0.0F}, {.constant = 0.0F});
}

double norm(const TestTensor& x) {
  double sum = 0.0;
  for (const double value : x.values()) sum += value * value;
  return std::sqrt(sum);
}

void expect_alike(const TestTensor& got, const TestTensor& want) {
  EXPECT_LT(relative_l2(got, want), 5e-2);
  EXPECT_NEAR(norm(got) / norm(want), 1.0, 0.02);
}

/// Nearly one-hot softmax: what rounds too early is far off.
TEST(GpuBackwardOperator, T12_GradientsOfLargeInputs) {
  VSA_NEEDS_GPU;
  for (const TileShape tile : {TileShape{4, 4, 4}, TileShape{2, 8, 8}, TileShape{4, 8, 8}}) {
    const TilePlan plan = grid_plan({8, 8, 8}, tile);
    for (const int64_t head_dim : {64, 128}) {
      const Heads heads{1, 2, 1, head_dim};
      const LutBuffer table = random_lut(heads, plan.num_tiles(), plan.num_tiles(), 3);
      for (const DType dtype : kTokenDtypes) {
        for (const double factor : {1.0, 4.0, 16.0, 64.0}) {
          SCOPED_TRACE(testing::Message() << plan.tile_tokens() << " tokens, D " << head_dim << ", "
                                          << name(dtype) << ", times " << factor);
          Qkv in = make_qkv(dtype, heads, plan, plan, 1);
          in.q = token_tensor(dtype, heads, plan, 1, Order::kBshd, factor);
          in.k = token_tensor(dtype, {1, 1, 1, head_dim}, plan, 2, Order::kBshd, factor);
          const TestTensor dout = token_tensor(dtype, heads, plan, 5);
          const AttentionOptions options{.gate_coarse = Gate::constant(0.5F), .lut = table.view()};
          const AttentionResult forward = test::run_attention(kReference, in, options);
          const AttentionResult wide{.out = forward.out,
                                     .lse = forward.lse.as(DType::kF64),
                                     .fine_out = forward.fine_out.as(DType::kF64),
                                     .lut = table};
          const AttentionGradients got = gpu::run_attention_backward(in, options, forward, dout);
          const AttentionGradients want = test::run_attention_backward(
              kReference, as_f64(in), options, wide, dout.as(DType::kF64));
          expect_alike(got.dq, want.dq);
          expect_alike(got.dk, want.dk);
          expect_alike(got.dv, want.dv);
        }
      }
    }
  }
}

}  // namespace
}  // namespace vsa::test::gpu
