// The whole operator on the CUDA backend in the cases that need more than parity.
#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "tests/gpu/cases.h"
#include "tests/support/compare.h"

namespace vsa::test::gpu {
namespace {

constexpr Heads kHeads{1, 4, 2, 128};

/// topk = all and the coarse branch off is dense attention; a tensor of ones is the constant 1.
TEST(GpuOperator, T23_AllTilesAreDense) {
  VSA_NEEDS_GPU;
  const TilePlan plan = grid_plan({5, 6, 9}, {4, 4, 4});
  const Qkv in = make_qkv(DType::kBF16, kHeads, plan, plan, 1);
  const int64_t n = plan.num_tiles();
  const LutBuffer all = LutBuffer::dense({1, 4, n, n});
  const auto out = [&](const Gate& coarse, const Gate& fine) {
    return gpu::run_attention(in, {.gate_coarse = coarse, .gate_fine = fine, .select = {.topk = n}},
                              Outputs::kOutOnly)
        .out;
  };
  EXPECT_TRUE(same_bits(out(Gate::zero(), Gate::one()), gpu::run_fine(in, all.view()).out));
  const TestTensor ones = constant_tensor(DType::kBF16, in.q.dims(), 1.0);
  EXPECT_TRUE(
      same_bits(out(Gate::tensor(ones.view()), Gate::one()), out(Gate::one(), Gate::one())));
}

/// T30: a list that the kernel ignored would give dense attention.
TEST(GpuOperator, T30_TheListIsObeyed) {
  VSA_NEEDS_GPU;
  const Heads heads{1, 2, 2, 64};
  const TilePlan plan = grid_plan({8, 8, 8}, {4, 4, 4});
  const Qkv in = make_qkv(DType::kF16, heads, plan, plan, 1);
  const LutBuffer first = lut_of_rows(1, 2, std::vector<std::vector<int32_t>>(8, {0}));
  const FineResult got = gpu::run_fine(in, first.view());
  const FineResult want = test::run_fine(kReference, as_f64(in), first.view());
  expect_close(got.out, want.out, fine_tolerance(in, first.view()).out);
  const LutBuffer all = LutBuffer::dense({1, 2, 8, 8});
  const FineResult dense = test::run_fine(kReference, as_f64(in), all.view());
  EXPECT_GT(relative_l2(got.out, dense.out), 0.1);
}

/// A packed prefix that is always kept and whose queries are dense. The call is captured, what it
/// was given in host memory is gone at the replay, and the replay sees new tensors.
TEST(GpuOperator, T41_T43_PackedPrefixInAGraphThatOutlivesItsPlan) {
  VSA_NEEDS_GPU;
  const TilePlan plan = packed_plan({77, 0, 130}, {5, 6, 7}, {4, 4, 4});
  const int64_t num_tiles = plan.num_tiles();
  const Qkv first = make_qkv(DType::kBF16, kHeads, plan, plan, 1);
  const Qkv second = make_qkv(DType::kBF16, kHeads, plan, plan, 2);
  const DeviceTensor q(first.q.view());
  const DeviceTensor k(first.k.view());
  const DeviceTensor v(first.v.view());
  TestTensor out(DType::kBF16, first.q.dims());
  const DeviceTensor device_out(ConstTensor(out.view()));
  LutBuffer lut({1, 4, num_tiles, num_tiles});
  const DeviceLut device_lut(lut.view());
  std::optional<DeviceBytes> workspace;
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  expect_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  {
    auto gone = std::make_unique<TilePlan>(plan);
    std::vector<int32_t> prefix{0, 1, 2, 3, 4};
    AttentionArgs args;
    args.q = q.view();
    args.k = k.view();
    args.v = v.view();
    args.gate_coarse = Gate::one();
    args.q_plan = args.kv_plan = gone.get();
    args.select = {.topk = 1, .forced_columns = prefix, .dense_rows = prefix};
    args.out = device_out.view();
    args.lut_out = device_lut.view();
    int64_t size = 0;
    Context context{.backend = BackendId::kCuda};
    context.workspace_query = &size;
    throw_if_error(attention_forward(context, args));
    workspace.emplace(size);
    expect_cuda(cudaDeviceSynchronize());
    expect_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    throw_if_error(attention_forward(
        {.backend = BackendId::kCuda, .stream = stream, .workspace = {workspace->data(), size}},
        args));
    expect_cuda(cudaStreamEndCapture(stream, &graph));
    std::ranges::fill(prefix, 6);
  }
  expect_cuda(cudaGraphInstantiate(&exec, graph, 0));
  for (const Qkv* in : {&first, &second}) {
    const auto copy = [](const DeviceTensor& to, const TestTensor& from) {
      const ConstTensor host = from.view();
      const auto bytes = static_cast<size_t>(host.num_elements() * 2);
      expect_cuda(cudaMemcpy(to.view().data, host.data, bytes, cudaMemcpyHostToDevice));
    };
    copy(q, in->q);
    copy(k, in->k);
    copy(v, in->v);
    expect_cuda(cudaMemset(workspace->data(), 0xFF, static_cast<size_t>(workspace->size())));
    expect_cuda(cudaDeviceSynchronize());
    expect_cuda(cudaGraphLaunch(exec, stream));
    expect_cuda(cudaStreamSynchronize(stream));
    device_out.download(out.view());
    device_lut.download(lut.view());
    for (int64_t i = 0; i < num_tiles; ++i) {
      EXPECT_EQ(lut.view().count[i], i < 5 ? num_tiles : 6) << i;
    }
    const AttentionOptions same{.lut = lut.view()};
    expect_close(out, test::run_attention(kReference, as_f64(*in), same).out,
                 attention_tolerance(*in, same, lut.view()));
  }
  expect_cuda(cudaGraphExecDestroy(exec));
  expect_cuda(cudaGraphDestroy(graph));
  expect_cuda(cudaStreamDestroy(stream));
}

/// The size of a 720p video in one head: every row on the device, sampled rows by the reference.
TEST(GpuOperator, T45_SampledRowsOfARealSize) {
  VSA_NEEDS_GPU;
  const TilePlan plan = grid_plan({21, 45, 80}, {4, 4, 4});
  const Heads heads{1, 1, 1, 128};
  const Qkv in = make_qkv(DType::kBF16, heads, plan, plan, 1);
  const int64_t n = plan.num_tiles();
  const AttentionResult got = gpu::run_attention(
      in, {.gate_coarse = Gate::zero(), .select = {.topk = n / 8}}, Outputs::kOutOnly);
  LutBuffer sampled(got.lut.view().dims);
  TestTensor out = got.out;
  const int64_t pitch = sampled.view().dims.pitch;
  for (int64_t i = 0; i < n; ++i) {
    if (i % 181 == 7 || i == n - 1) {
      std::copy_n(got.lut.view().index + i * pitch, pitch, sampled.view().index + i * pitch);
      sampled.view().count[i] = got.lut.view().count[i];
      EXPECT_EQ(got.lut.view().count[i], n / 8);
    } else {
      for (const int32_t s : plan.tokens(i)) out.set_row(0, 0, s, 0.0);
    }
  }
  expect_close(out, test::run_fine(kReference, as_f64(in), sampled.view()).out,
               fine_tolerance(in, sampled.view()).out);
}

}  // namespace
}  // namespace vsa::test::gpu
