// Parity of the whole operator of the CUDA backend, with combine in the fine kernel and on its own.
#include <algorithm>

#include "tests/gpu/cases.h"
#include "tests/support/compare.h"

namespace vsa::test::gpu {
namespace {

class GpuAttention : public GpuTest {
 protected:
  SelectOptions select() const {
    return {.topk = std::max<int64_t>(1, shape().kv_plan.num_tiles() / 4)};
  }
  /// The operator with what the device selected, against the reference fed the same table.
  void expect_right(const Qkv& in, AttentionOptions options, const TestTensor* gate_coarse,
                    const TestTensor* gate_fine, Outputs outputs) const {
    const AttentionResult got = gpu::run_attention(in, options, outputs);
    TestTensor wide_coarse;
    TestTensor wide_fine;
    options.lut = got.lut.view();
    if (gate_coarse != nullptr) {
      wide_coarse = gate_coarse->as(DType::kF64);
      options.gate_coarse = Gate::tensor(wide_coarse.view());
    }
    if (gate_fine != nullptr) {
      wide_fine = gate_fine->as(DType::kF64);
      options.gate_fine = Gate::tensor(wide_fine.view());
    }
    const AttentionResult want = test::run_attention(kReference, as_f64(in), options);
    expect_close(got.out, want.out, attention_tolerance(in, options, got.lut.view()));
    if (outputs == Outputs::kOutOnly) return;
    const FineTolerance fine = fine_tolerance(in, got.lut.view());
    expect_close(got.lse, want.lse, fine.lse);
    expect_close(got.fine_out, want.fine_out, fine.out);
  }
};
VSA_FOR_EACH_GPU_CASE(GpuAttention);

TEST_P(GpuAttention, CombinedInTheFineKernel) {
  VSA_NEEDS_GPU;
  for (const DType dtype : kTokenDtypes) {
    SCOPED_TRACE(name(dtype));
    const Qkv in = qkv(dtype);
    const TestTensor gate = like_q(dtype, 5);
    expect_right(in, {.gate_coarse = Gate::tensor(gate.view()), .select = select()}, &gate, nullptr,
                 Outputs::kOutOnly);
    expect_right(in,
                 {.gate_coarse = Gate::constant(0.5F),
                  .gate_fine = Gate::constant(-2.0F),
                  .select = select()},
                 nullptr, nullptr, Outputs::kOutOnly);
  }
}

TEST_P(GpuAttention, CombinedOnItsOwn) {
  VSA_NEEDS_GPU;
  for (const DType dtype : kTokenDtypes) {
    SCOPED_TRACE(name(dtype));
    const Qkv in = qkv(dtype);
    const TestTensor gate_coarse = like_q(dtype, 5);
    const TestTensor gate_fine = like_q(dtype, 6);
    expect_right(in,
                 {.gate_coarse = Gate::tensor(gate_coarse.view()),
                  .gate_fine = Gate::tensor(gate_fine.view()),
                  .select = select()},
                 &gate_coarse, &gate_fine, Outputs::kAll);
  }
}

TEST_P(GpuAttention, WithTheCallersTable) {
  VSA_NEEDS_GPU;
  const LutBuffer table = lut();
  const Qkv in = qkv(DType::kBF16);
  const AttentionOptions options{.gate_coarse = Gate::one(), .lut = table.view()};
  const AttentionResult got = gpu::run_attention(in, options, Outputs::kOutOnly);
  EXPECT_TRUE(same_lut(got.lut.view(), table.view()));
  const AttentionResult want = test::run_attention(kReference, as_f64(in), options);
  expect_close(got.out, want.out, attention_tolerance(in, options, table.view()));
}

TEST_P(GpuAttention, BranchesSwitchedOff) {
  VSA_NEEDS_GPU;
  const Qkv in = qkv(DType::kF16);
  expect_right(in, {.gate_coarse = Gate::zero(), .select = select()}, nullptr, nullptr,
               Outputs::kOutOnly);
  expect_right(in, {.gate_coarse = Gate::one(), .gate_fine = Gate::zero(), .select = select()},
               nullptr, nullptr, Outputs::kOutOnly);
}

TEST_P(GpuAttention, SelectsByRoundedScores) {
  VSA_NEEDS_GPU;
  for (const DType dtype : kTokenDtypes) {
    SCOPED_TRACE(name(dtype));
    const Qkv in =
        few_bits_qkv(dtype, shape().heads, shape().q_plan, shape().kv_plan, shape().order);
    const AttentionOptions options{
        .gate_fine = Gate::zero(), .select = select(), .rounding = CoarseRounding::kBf16};
    const AttentionResult got = gpu::run_attention(in, options, Outputs::kOutOnly);
    const AttentionResult want = test::run_attention(kReference, as_f64(in), options);
    EXPECT_TRUE(same_lut(got.lut.view(), want.lut.view()));
    EXPECT_LT(relative_l2(got.out, want.out), eps(DType::kBF16));
  }
}

/// The selection itself. Where scores are within rounding of the k-th it could differ; random ones
/// are apart by far more.
TEST_P(GpuAttention, SelectsAsTheReference) {
  VSA_NEEDS_GPU;
  const Qkv in = qkv(DType::kBF16);
  const AttentionResult got =
      gpu::run_attention(in, {.gate_coarse = Gate::zero(), .select = select()}, Outputs::kOutOnly);
  const AttentionResult want = test::run_attention(
      kReference, as_f64(in), {.gate_coarse = Gate::zero(), .select = select()});
  const LutDims& dims = got.lut.view().dims;
  const int64_t rows = dims.batch * dims.num_heads * dims.num_q_tiles;
  int64_t different = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const auto entries = [&](const ConstLut& lut) {
      return std::vector<int32_t>(lut.index + row * lut.dims.pitch,
                                  lut.index + row * lut.dims.pitch + lut.count[row]);
    };
    if (entries(got.lut.view()) != entries(want.lut.view())) ++different;
  }
  EXPECT_EQ(different, 0) << "of " << rows << " rows";
}

/// The same values in another order of the axes in memory.
TestTensor in_order(const TestTensor& x, Order order) {
  TestTensor copy(x.dtype(), x.dims(), order);
  copy.set_values(x.values());
  return copy;
}

/// What the stages gave, the operator need not compute; in the epilogue of the fine kernel a
/// contiguous coarse_out, one with other strides on its own.
TEST_P(GpuAttention, WhatExistsAlready) {
  VSA_NEEDS_GPU;
  const Qkv in = qkv(DType::kBF16);
  const TestTensor gate = like_q(DType::kBF16, 5);
  const Qkv pooled{.q = gpu::run_pool(in.q, in.q_plan),
                   .k = gpu::run_pool(in.k, in.kv_plan),
                   .v = gpu::run_pool(in.v, in.kv_plan),
                   .q_plan = in.q_plan,
                   .kv_plan = in.kv_plan,
                   .scale = in.scale};
  const CoarseResult coarse = gpu::run_coarse(pooled);
  const LutBuffer lut = gpu::run_select(coarse.scores, select());
  for (const Outputs outputs : {Outputs::kAll, Outputs::kOutOnly}) {
    for (const Order order : {Order::kBhsd, Order::kBshd}) {
      SCOPED_TRACE(static_cast<int>(order));
      const TestTensor coarse_out = in_order(coarse.out, order);
      AttentionOptions run{.gate_coarse = Gate::tensor(gate.view()), .select = select()};
      const AttentionResult want = gpu::run_attention(in, run, outputs);
      const auto expect_same = [&](const char* what, bool same_kernels) {
        const AttentionResult got = gpu::run_attention(in, run, outputs);
        EXPECT_TRUE(same_lut(got.lut.view(), want.lut.view())) << what;
        if (same_kernels) {
          EXPECT_TRUE(same_bits(got.out, want.out)) << what;
        } else {
          EXPECT_LT(relative_l2(got.out, want.out.as(DType::kF64)), eps(DType::kBF16)) << what;
        }
      };
      run.q_pooled = pooled.q.view();
      run.k_pooled = pooled.k.view();
      run.v_pooled = pooled.v.view();
      expect_same("means", true);
      run.coarse_out = coarse_out.view();
      const bool same_kernels = outputs == Outputs::kAll || order == Order::kBhsd;
      expect_same("means and coarse_out", same_kernels);
      run.lut = lut.view();
      expect_same("means, coarse_out and lut", same_kernels);
    }
  }
}

}  // namespace
}  // namespace vsa::test::gpu
