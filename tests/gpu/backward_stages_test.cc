// Parity of each stage's gradients on the CUDA backend with the fp64 reference. All padding is NaN:
// that of dout, of the gates, and of what forward wrote.
#include <cmath>
#include <limits>

#include "tests/gpu/cases.h"
#include "tests/support/compare.h"

namespace vsa::test::gpu {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class GpuBackwardStages : public GpuTest {
 protected:
  Dims tile_dims(const TilePlan& plan, int64_t num_heads) const {
    return {shape().heads.batch, num_heads, plan.num_tiles(), shape().heads.head_dim};
  }
};
VSA_FOR_EACH_GPU_CASE(GpuBackwardStages);

void expect_gradients_close(const Gradients& got, const Gradients& want,
                            const GradientTolerance& tolerance) {
  expect_close(got.dq, want.dq, tolerance.dq);
  expect_close(got.dk, want.dk, tolerance.dk);
  expect_close(got.dv, want.dv, tolerance.dv);
}

TEST_P(GpuBackwardStages, Pool) {
  VSA_NEEDS_GPU;
  for (const TilePlan& plan : {shape().q_plan, shape().kv_plan}) {
    const TestTensor dpooled =
        normal_tensor(DType::kF32, tile_dims(plan, shape().heads.num_heads), 3, shape().order);
    for (const DType dtype : kTokenDtypes) {
      expect_close(gpu::run_pool_backward(dpooled, plan, dtype),
                   test::run_pool_backward(kReference, dpooled.as(DType::kF64), plan, DType::kF64),
                   pool_backward_tolerance(dpooled, plan, dtype));
    }
  }
}

TEST_P(GpuBackwardStages, Coarse) {
  VSA_NEEDS_GPU;
  const Heads& heads = shape().heads;
  std::vector<int32_t> third_empty;
  for (int64_t j = 0; j < shape().kv_plan.num_tiles(); ++j) {
    third_empty.push_back(j % 3 == 1 ? 0 : 4);
  }
  for (const TilePlan& kv_plan : {shape().kv_plan, tiled_plan(third_empty, 4)}) {
    const Dims q = tile_dims(shape().q_plan, heads.num_heads);
    const Dims kv = tile_dims(kv_plan, heads.num_kv_heads);
    Qkv in{.q = normal_tensor(DType::kF32, q, 1, shape().order),
           .k = normal_tensor(DType::kF32, kv, 2, shape().order),
           .v = normal_tensor(DType::kF32, kv, 3, shape().order),
           .q_plan = shape().q_plan,
           .kv_plan = kv_plan};
    const TestTensor dout = normal_tensor(DType::kF32, q, 4, shape().order);
    for (const std::optional<float> scale : {std::optional<float>{}, std::optional<float>{-0.3F}}) {
      in.scale = scale;
      expect_gradients_close(
          gpu::run_coarse_backward(in, dout),
          test::run_coarse_backward(kReference, as_f64(in), dout.as(DType::kF64)),
          coarse_backward_tolerance(in, dout));
    }
  }
}

TEST_P(GpuBackwardStages, Combine) {
  VSA_NEEDS_GPU;
  const TilePlan& plan = shape().q_plan;
  const TestTensor coarse_out =
      normal_tensor(DType::kF32, tile_dims(plan, shape().heads.num_heads), 6, shape().order);
  for (const DType dtype : kTokenDtypes) {
    SCOPED_TRACE(name(dtype));
    const TestTensor fine_out = like_q(dtype, 3);
    const TestTensor gate = like_q(dtype, 4);
    const TestTensor gate_fine = like_q(dtype, 5);
    const TestTensor dout = like_q(dtype, 7);
    const TestTensor wide_gate = gate.as(DType::kF64);
    const TestTensor wide_gate_fine = gate_fine.as(DType::kF64);
    const auto check = [&](const Gate& coarse, const Gate& fine, const Gate& wide_coarse,
                           const Gate& wide_fine) {
      const CombineGradients got =
          gpu::run_combine_backward(fine_out, coarse_out, coarse, fine, plan, dout);
      const CombineGradients want = test::run_combine_backward(
          kReference, fine_out.as(DType::kF64), coarse_out.as(DType::kF64), wide_coarse, wide_fine,
          plan, dout.as(DType::kF64));
      const CombineTolerance tolerance =
          combine_backward_tolerance(fine_out, coarse_out, coarse, fine, plan, dout);
      expect_close(got.dfine_out, want.dfine_out, tolerance.dfine_out);
      expect_close(got.dcoarse_out, want.dcoarse_out, tolerance.dcoarse_out);
      expect_close(got.dgate_coarse, want.dgate_coarse, tolerance.dgate_coarse);
      expect_close(got.dgate_fine, want.dgate_fine, tolerance.dgate_fine);
    };
    const Gate half = Gate::constant(0.5F);
    check(Gate::tensor(gate.view()), Gate::one(), Gate::tensor(wide_gate.view()), Gate::one());
    check(half, Gate::tensor(gate_fine.view()), half, Gate::tensor(wide_gate_fine.view()));
    check(Gate::zero(), Gate::zero(), Gate::zero(), Gate::zero());
  }
}

TEST_P(GpuBackwardStages, Fine) {
  VSA_NEEDS_GPU;
  const LutBuffer table = lut();
  for (const DType dtype : kTokenDtypes) {
    SCOPED_TRACE(name(dtype));
    Qkv in = qkv(dtype);
    const TestTensor dout = like_q(dtype, 5);
    for (const std::optional<float> scale :
         {std::optional<float>{}, std::optional<float>{-0.3F}, std::optional<float>{0.0F}}) {
      in.scale = scale;
      FineResult forward = test::run_fine(kReference, in, table.view());
      fill_padding(forward.out, in.q_plan, kNan);
      fill_padding(forward.lse, in.q_plan, kNan);
      const FineResult wide{.out = forward.out.as(DType::kF64), .lse = forward.lse.as(DType::kF64)};
      expect_gradients_close(
          gpu::run_fine_backward(in, table.view(), forward, dout),
          test::run_fine_backward(kReference, as_f64(in), table.view(), wide, dout.as(DType::kF64)),
          fine_backward_tolerance(in, table.view(), forward, dout));
    }
  }
}

}  // namespace
}  // namespace vsa::test::gpu
