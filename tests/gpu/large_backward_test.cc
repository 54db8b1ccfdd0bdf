// T27: gradients of more than 2^31 elements, all of them computed; sampled tiles against the
// reference.
#include "tests/gpu/large_tensor.h"
#include "tests/support/compare.h"

namespace vsa::test::gpu {
namespace {

/// The rows of slice number `slice` that are sampled or keep a sampled tile; the others are empty:
/// less work, and the gradients of sampled tiles are the same.
LutBuffer rows_that_count(int64_t slice, int64_t n, const std::vector<int64_t>& sampled) {
  LutBuffer few(LutDims{1, 1, n, kTopk});
  for (int64_t tile = 0; tile < n; ++tile) {
    int32_t* row = few.view().index + tile * kTopk;
    fill_row(row, slice, tile, n);
    const bool counts = std::ranges::find(sampled, tile) != sampled.end() ||
                        std::any_of(row, row + kTopk, [&](int32_t j) {
                          return std::ranges::find(sampled, j) != sampled.end();
                        });
    if (counts) {
      few.view().count[tile] = kTopk;
    } else {
      std::fill_n(row, kTopk, -1);
    }
  }
  return few;
}

TEST(GpuLarge, T27_GradientsOfTheOperator) {
  NEEDS_A_LARGE_GPU(70);
  const TilePlan plan = large_plan();
  const int64_t n = plan.num_tiles();
  const int64_t seq_len = plan.seq_len();
  const LargeTensor q(seq_len, 1), k(seq_len, 2), v(seq_len, 3), gate(seq_len, 4), dout(seq_len, 5);
  const LargeTensor fine_out(seq_len), dq(seq_len), dk(seq_len), dv(seq_len), dgate(seq_len);
  const DeviceBytes lse_memory(kBatch * kHeads * seq_len * 4);
  const Tensor lse = Tensor::bhsd(lse_memory.data(), DType::kF32, {kBatch, kHeads, seq_len, 1});
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
                                       .out = dgate.view(),
                                       .lse = lse,
                                       .fine_out = fine_out.view()});
  });
  run_on_gpu([&](const Context& context) {
    return attention_backward(context, {.q = q.view(),
                                        .k = k.view(),
                                        .v = v.view(),
                                        .gate_coarse = Gate::tensor(gate.view()),
                                        .q_plan = &plan,
                                        .kv_plan = &plan,
                                        .lut = there.view(),
                                        .lse = lse,
                                        .fine_out = fine_out.view(),
                                        .dout = dout.view(),
                                        .dq = dq.view(),
                                        .dk = dk.view(),
                                        .dv = dv.view(),
                                        .dgate_coarse = dgate.view()});
  });
  const std::vector<int64_t> tiles{0, 1, n / 2, n - 2, n - 1};
  for (const Slice& at : kSampled) {
    SCOPED_TRACE(testing::Message() << "batch " << at.b << " head " << at.h);
    const int64_t slice = at.b * kHeads + at.h;
    TestTensor lse_slice(DType::kF32, {1, 1, seq_len, 1});
    expect_cuda(cudaMemcpy(lse_slice.view().data, lse_memory.data() + slice * seq_len * 4,
                           static_cast<size_t>(seq_len * 4), cudaMemcpyDeviceToHost));
    const TestTensor wide_gate = gate.slice(at).as(DType::kF64);
    const Qkv in{.q = q.slice(at).as(DType::kF64),
                 .k = k.slice(at).as(DType::kF64),
                 .v = v.slice(at).as(DType::kF64),
                 .q_plan = plan,
                 .kv_plan = plan};
    const AttentionResult forward{.out = {},
                                  .lse = lse_slice.as(DType::kF64),
                                  .fine_out = fine_out.download(at).as(DType::kF64),
                                  .lut = rows_that_count(slice, n, tiles)};
    const AttentionGradients want = test::run_attention_backward(
        kReference, in,
        {.gate_coarse = Gate::tensor(wide_gate.view()), .lut = std::as_const(forward.lut).view()},
        forward, dout.slice(at).as(DType::kF64));
    // A wrong offset is off by 1 and more; the tight bounds are those of small shapes.
    const auto expect_alike = [&](const LargeTensor& got, const TestTensor& wanted) {
      EXPECT_LT(relative_l2(sampled(got.download(at), plan, tiles), sampled(wanted, plan, tiles)),
                0.01);
    };
    expect_alike(dq, want.dq);
    expect_alike(dk, want.dk);
    expect_alike(dv, want.dv);
    expect_alike(dgate, want.dgate_coarse);
  }
}

}  // namespace
}  // namespace vsa::test::gpu
