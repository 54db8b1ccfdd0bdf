// Parity of each stage of the CUDA backend with the fp64 reference.
#include <cmath>
#include <limits>

#include "tests/gpu/selection.h"
#include "tests/support/magnitude.h"

namespace vsa::test::gpu {
namespace {

class GpuStages : public GpuTest {};
VSA_FOR_EACH_GPU_CASE(GpuStages);

TEST_P(GpuStages, TileAndUntile) {
  VSA_NEEDS_GPU;
  for (const DType dtype : kTokenDtypes) {
    const TestTensor x = like_q(dtype, 3);
    const TestTensor tiled = gpu::run_tile(x, shape().q_plan);
    EXPECT_TRUE(same_bits(tiled, test::run_tile(kReference, x, shape().q_plan)));
    EXPECT_TRUE(same_bits(gpu::run_untile(tiled, shape().q_plan),
                          test::run_untile(kReference, tiled, shape().q_plan)));
  }
}

TEST_P(GpuStages, Pool) {
  VSA_NEEDS_GPU;
  for (const DType dtype : kTokenDtypes) {
    SCOPED_TRACE(name(dtype));
    const Qkv in = qkv(dtype);
    expect_close(gpu::run_pool(in.q, in.q_plan),
                 test::run_pool(kReference, in.q.as(DType::kF64), in.q_plan),
                 pool_tolerance(in.q, in.q_plan));
    expect_close(gpu::run_pool(in.k, in.kv_plan),
                 test::run_pool(kReference, in.k.as(DType::kF64), in.kv_plan),
                 pool_tolerance(in.k, in.kv_plan));
  }
}

/// Pooled q, k and v as the reference makes them, in f32. The kv plan says which are empty.
Qkv pooled_f32(const Qkv& in) {
  const Qkv pooled = pooled_f64(in);
  return {.q = pooled.q.as(DType::kF32),
          .k = pooled.k.as(DType::kF32),
          .v = pooled.v.as(DType::kF32),
          .q_plan = pooled.q_plan,
          .kv_plan = pooled.kv_plan,
          .scale = in.scale};
}

TEST_P(GpuStages, Coarse) {
  VSA_NEEDS_GPU;
  const Qkv pooled = pooled_f32(qkv(DType::kBF16));
  const CoarseResult got = gpu::run_coarse(pooled);
  const Qkv wide = as_f64(pooled);
  const CoarseResult want =
      test::run_coarse(kReference, wide.q, wide.k, wide.v, wide.kv_plan, wide.scale);
  const CoarseTolerance tolerance = coarse_tolerance(pooled);
  expect_close(got.scores, want.scores, tolerance.scores);
  expect_close(got.out, want.out, tolerance.out);
}

TEST_P(GpuStages, CoarseRoundedAsFastVideo) {
  VSA_NEEDS_GPU;
  Qkv in = pooled_f32(qkv(DType::kBF16));
  in.q = few_bits_tensor(DType::kF32, in.q.dims(), 1, shape().order);
  in.k = few_bits_tensor(DType::kF32, in.k.dims(), 2, shape().order);
  const Qkv wide = as_f64(in);
  const CoarseResult got = gpu::run_coarse(in, CoarseRounding::kBf16);
  const CoarseResult want = test::run_coarse(kReference, wide.q, wide.k, wide.v, wide.kv_plan,
                                             wide.scale, CoarseRounding::kBf16);
  expect_close(got.scores, want.scores, exact());
  expect_close(got.out, want.out, rounded_coarse_out_tolerance(in));
  expect_close(got.out, got.out.as(DType::kBF16), exact());
}

TEST_P(GpuStages, SelectGivesTheSameTable) {
  VSA_NEEDS_GPU;
  const Heads& heads = shape().heads;
  TestTensor scores = normal_tensor(
      DType::kF32,
      {heads.batch, heads.num_heads, shape().q_plan.num_tiles(), shape().kv_plan.num_tiles()}, 6,
      shape().order);
  std::vector<double> values = scores.values();
  const double inf = std::numeric_limits<double>::infinity();
  const double special[] = {0.0, -0.0, 0.5, 0.5, -inf, std::nan(""), inf, 0.5};
  for (size_t i = 0; i < values.size(); ++i) {
    if (i % 3 != 0) values[i] = special[(i * i) % std::size(special)];
  }
  scores.set_values(values);
  const int64_t most = scores.dims().head_dim;
  expect_same_selection(scores, {1, (most + 1) / 2, most},
                        static_cast<int32_t>(scores.dims().seq_len / 2));
}

TEST_P(GpuStages, Fine) {
  VSA_NEEDS_GPU;
  const LutBuffer table = lut();
  for (const DType dtype : kTokenDtypes) {
    SCOPED_TRACE(name(dtype));
    Qkv in = qkv(dtype);
    for (const std::optional<float> scale :
         {std::optional<float>{}, std::optional<float>{-0.3F}, std::optional<float>{0.0F}}) {
      in.scale = scale;
      expect_fine(gpu::run_fine(in, table.view()), in, table.view());
    }
  }
}

TEST_P(GpuStages, Combine) {
  VSA_NEEDS_GPU;
  for (const DType dtype : kTokenDtypes) {
    SCOPED_TRACE(name(dtype));
    const TestTensor fine_out = like_q(dtype, 3);
    const TestTensor gate = like_q(dtype, 4);
    const TestTensor gate_fine = like_q(dtype, 5);
    const Heads& heads = shape().heads;
    const TestTensor coarse_out = normal_tensor(
        DType::kF32, {heads.batch, heads.num_heads, shape().q_plan.num_tiles(), heads.head_dim}, 6);
    // The reference runs on the same values in f64, so that it rounds nothing.
    const TestTensor wide_gate = gate.as(DType::kF64);
    const TestTensor wide_gate_fine = gate_fine.as(DType::kF64);
    const auto check = [&](const Gate& coarse, const Gate& fine, const Gate& wide_coarse,
                           const Gate& wide_fine) {
      expect_close(
          gpu::run_combine(fine_out, coarse_out, coarse, fine, shape().q_plan),
          test::run_combine(kReference, fine_out.as(DType::kF64), coarse_out.as(DType::kF64),
                            wide_coarse, wide_fine, shape().q_plan),
          combine_tolerance(fine_out, coarse_out, coarse, fine, shape().q_plan));
    };
    const Gate half = Gate::constant(0.5F);
    const Gate minus_two = Gate::constant(-2.0F);
    check(Gate::tensor(gate.view()), Gate::one(), Gate::tensor(wide_gate.view()), Gate::one());
    check(half, Gate::tensor(gate_fine.view()), half, Gate::tensor(wide_gate_fine.view()));
    check(Gate::zero(), minus_two, Gate::zero(), minus_two);
  }
}

}  // namespace
}  // namespace vsa::test::gpu
