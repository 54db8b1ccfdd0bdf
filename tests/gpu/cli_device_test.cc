// What the vsa command does around a call on the CUDA backend: copies to the device and back.
#include <algorithm>

#include "cli/common/device.h"
#include "tests/gpu/cases.h"
#include "tests/support/compare.h"

namespace vsa::test::gpu {
namespace {

constexpr Context kCuda{.backend = BackendId::kCuda};

struct GpuCli : testing::Test {
  TilePlan plan = grid_plan({5, 6, 7}, {4, 4, 4});
  Heads heads{2, 4, 2, 64};
};

TEST_F(GpuCli, StagesFromAndToAnyStrides) {
  VSA_NEEDS_GPU;
  for (const Order order : kAllOrders) {
    const Qkv in = make_qkv(DType::kBF16, heads, plan, plan, 1, order);
    const LutBuffer lut = random_lut(heads, plan.num_tiles(), plan.num_tiles(), 9);
    TestTensor out(DType::kBF16, in.q.dims(), order);
    TestTensor lse(DType::kF32, {2, 4, plan.seq_len(), 1}, order);
    throw_if_error(cli::on_backend(kCuda, vsa::fine,
                                   {.q = in.q.view(),
                                    .k = in.k.view(),
                                    .v = in.v.view(),
                                    .q_plan = &plan,
                                    .kv_plan = &plan,
                                    .lut = lut.view(),
                                    .out = out.view(),
                                    .lse = lse.view()}));
    const FineResult want = test::run_fine(kReference, as_f64(in), lut.view());
    const FineTolerance tolerance = fine_tolerance(in, lut.view());
    expect_close(out, want.out, tolerance.out);
    expect_close(lse, want.lse, tolerance.lse);
    EXPECT_TRUE(out.guards_intact() && lse.guards_intact());
  }
}

TEST_F(GpuCli, TheOperatorIsWhatItIsWithoutTheHelper) {
  VSA_NEEDS_GPU;
  const Qkv in = make_qkv(DType::kF16, heads, plan, plan, 1);
  const TestTensor gate = token_tensor(DType::kF16, heads, plan, 5);
  const AttentionOptions options{.gate_coarse = Gate::tensor(gate.view()), .select = {.topk = 3}};
  const AttentionResult want = gpu::run_attention(in, options, Outputs::kOutOnly);
  TestTensor out(DType::kF16, in.q.dims());
  LutBuffer lut(want.lut.view().dims);
  AttentionArgs args;
  args.q = in.q.view();
  args.k = in.k.view();
  args.v = in.v.view();
  args.gate_coarse = options.gate_coarse;
  args.q_plan = args.kv_plan = &plan;
  args.select = options.select;
  args.out = out.view();
  args.lut_out = lut.view();
  throw_if_error(cli::on_backend(kCuda, vsa::attention_forward, args));
  EXPECT_TRUE(same_bits(out, want.out));
  EXPECT_TRUE(same_lut(lut.view(), want.lut.view()));
}

TEST_F(GpuCli, GradientsAreWhatTheyAreWithoutTheHelper) {
  VSA_NEEDS_GPU;
  const Qkv in = make_qkv(DType::kBF16, heads, plan, plan, 1);
  const TestTensor gate = token_tensor(DType::kBF16, heads, plan, 5);
  const TestTensor dout = token_tensor(DType::kBF16, heads, plan, 6);
  const AttentionOptions options{.gate_coarse = Gate::tensor(gate.view()), .select = {.topk = 3}};
  const AttentionResult forward = gpu::run_attention(in, options, Outputs::kAll);
  const AttentionGradients want = gpu::run_attention_backward(in, options, forward, dout);
  TestTensor dq(DType::kBF16, in.q.dims());
  TestTensor dk(DType::kBF16, in.k.dims());
  TestTensor dv(DType::kBF16, in.k.dims());
  TestTensor dgate(DType::kBF16, in.q.dims());
  AttentionBackwardArgs args;
  args.q = in.q.view();
  args.k = in.k.view();
  args.v = in.v.view();
  args.gate_coarse = options.gate_coarse;
  args.q_plan = args.kv_plan = &plan;
  args.lut = forward.lut.view();
  args.lse = forward.lse.view();
  args.fine_out = forward.fine_out.view();
  args.dout = dout.view();
  args.dq = dq.view();
  args.dk = dk.view();
  args.dv = dv.view();
  args.dgate_coarse = dgate.view();
  throw_if_error(cli::on_backend(kCuda, vsa::attention_backward, args));
  EXPECT_TRUE(same_bits(dq, want.dq));
  EXPECT_TRUE(same_bits(dk, want.dk));
  EXPECT_TRUE(same_bits(dv, want.dv));
  EXPECT_TRUE(same_bits(dgate, want.dgate_coarse));
}

TEST_F(GpuCli, WhatACallChangesInPlaceComesBack) {
  VSA_NEEDS_GPU;
  const TestTensor x = normal_tensor(DType::kBF16, {1, 2, plan.seq_len(), 64}, 1);
  const auto normed_by = [&](const Context& context) {
    TestTensor normed = x.as(DType::kBF16);
    throw_if_error(
        cli::on_backend(context, vsa::norm_rope_pool, {.x = normed.view(), .plan = &plan}));
    return normed;
  };
  EXPECT_LT(relative_l2(normed_by(kCuda), normed_by(kReference)), 0.01);
}

/// From the beginning of what was called to its end: emptying the cache, 0.1 ms or more, is before.
TEST_F(GpuCli, TheClockTimesTheCallAlone) {
  VSA_NEEDS_GPU;
  const TestTensor x = normal_tensor(DType::kBF16, {1, 2, plan.seq_len(), 64}, 1);
  TestTensor pooled(DType::kF32, {1, 2, plan.num_tiles(), 64});
  cli::Device device(BackendId::kCuda);
  cli::DeviceClock clock(BackendId::kCuda);
  const PoolArgs args =
      cli::on_device(device, {.x = x.view(), .plan = &plan, .pooled = pooled.view()});
  const auto pool = [&] {
    throw_if_error(device.call([&](const Context& c) { return vsa::pool(c, args); }));
  };
  std::vector<double> empty_ms, pool_ms;
  for (int i = 0; i < 9; ++i) {
    clock.start(device);
    empty_ms.push_back(clock.stop_ms(device));
    clock.start(device);
    pool();
    pool_ms.push_back(clock.stop_ms(device));
  }
  std::ranges::sort(empty_ms);
  std::ranges::sort(pool_ms);
  EXPECT_LT(empty_ms[4], 0.02);
  EXPECT_GT(pool_ms[4], empty_ms[4]);
  EXPECT_LT(pool_ms[4], 0.1) << "launches are not part of it";
  EXPECT_GT(device.workspace_bytes(), 0);
  EXPECT_EQ(device.system_name().size(), 12U);  // 0000:1b:00.0
}

TEST_F(GpuCli, ARefusedCallIsAStatus) {
  VSA_NEEDS_GPU;
  const TestTensor x = normal_tensor(DType::kF32, {1, 1, plan.seq_len(), 64}, 1);
  TestTensor pooled(DType::kF32, {1, 1, plan.num_tiles(), 64});
  EXPECT_EQ(
      cli::on_backend(kCuda, vsa::pool, {.x = x.view(), .plan = &plan, .pooled = pooled.view()})
          .code(),
      StatusCode::kUnsupported);
}

}  // namespace
}  // namespace vsa::test::gpu
