// T27: tensors of more than 2^31 elements, all of them computed; sampled tiles against the
// reference.
#include "tests/gpu/large_tensor.h"
#include "tests/support/compare.h"

namespace vsa::test::gpu {
namespace {

TEST(GpuLarge, T27_TheOperator) {
  NEEDS_A_LARGE_GPU(40);
  const TilePlan plan = large_plan();
  const int64_t n = plan.num_tiles();
  const LargeTensor q(plan.seq_len(), 1), k(plan.seq_len(), 2), v(plan.seq_len(), 3);
  const LargeTensor gate(plan.seq_len(), 4);
  const LargeTensor out(plan.seq_len());
  const LutBuffer table = large_table(n);
  const DeviceLut there(table.view());
  run_on_gpu([&](const Context& context) {
    return attention_forward(context, {.q = q.view(),
                                       .k = k.view(),
                                       .v = v.view(),
                                       .gate_coarse = Gate::tensor(gate.view()),
                                       .q_plan = &plan,
                                       .kv_plan = &plan,
                                       .lut = there.view(),
                                       .out = out.view()});
  });
  const std::vector<int64_t> tiles{0, 1, n / 2, n - 2, n - 1};
  for (const Slice& at : kSampled) {
    SCOPED_TRACE(testing::Message() << "batch " << at.b << " head " << at.h);
    LutBuffer few(LutDims{1, 1, n, kTopk});  // the other rows are empty: less work
    for (const int64_t tile : tiles) {
      fill_row(few.view().index + tile * kTopk, at.b * kHeads + at.h, tile, n);
      few.view().count[tile] = kTopk;
    }
    const TestTensor wide_gate = gate.slice(at).as(DType::kF64);
    const Qkv in{.q = q.slice(at).as(DType::kF64),
                 .k = k.slice(at).as(DType::kF64),
                 .v = v.slice(at).as(DType::kF64),
                 .q_plan = plan,
                 .kv_plan = plan};
    const AttentionResult want = test::run_attention(
        kReference, in,
        {.gate_coarse = Gate::tensor(wide_gate.view()), .lut = std::as_const(few).view()});
    // A wrong offset is off by 1 and more; the tight bounds are those of small shapes.
    EXPECT_LT(relative_l2(sampled(out.download(at), plan, tiles), sampled(want.out, plan, tiles)),
              0.01);
  }
}

TEST(GpuLarge, T27_TileAndUntile) {
  NEEDS_A_LARGE_GPU(40);
  const TilePlan plan = large_plan();
  const LargeTensor x(plan.seq_len(), 1);
  const LargeTensor tiled(plan.padded_len());
  const LargeTensor back(plan.seq_len());
  run_on_gpu([&](const Context& context) {
    return tile(context, {.x = x.view(), .plan = &plan, .tiled = tiled.view()});
  });
  run_on_gpu([&](const Context& context) {
    return untile(context, {.tiled = tiled.view(), .plan = &plan, .x = back.view()});
  });
  for (const Slice& at : kSampled) {
    SCOPED_TRACE(testing::Message() << "batch " << at.b << " head " << at.h);
    EXPECT_TRUE(same_bits(tiled.download(at), test::run_tile(kReference, x.slice(at), plan)));
    EXPECT_TRUE(same_bits(back.download(at), x.slice(at)));
  }
}

}  // namespace
}  // namespace vsa::test::gpu
