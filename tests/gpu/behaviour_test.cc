// What the CUDA backend promises besides right numbers: the same bits, streams, graphs, refusals.
#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/gpu/cases.h"
#include "tests/support/compare.h"

namespace vsa::test::gpu {
namespace {

const TileShape kCube{4, 4, 4};

Qkv small_problem(DType dtype, int64_t head_dim = 128, uint64_t seed = 1) {
  const TilePlan plan = grid_plan({6, 9, 13}, kCube);
  return make_qkv(dtype, {1, 2, 1, head_dim}, plan, plan, seed);
}

/// T13: a store that nobody waits for shows as bits that change while the device is busy.
TEST(GpuBehaviour, T13_TheSameBitsHundredTimes) {
  VSA_NEEDS_GPU;
  const Qkv in = small_problem(DType::kBF16);
  const AttentionOptions options{.gate_coarse = Gate::one(), .select = {.topk = 5}};
  const AttentionResult first = gpu::run_attention(in, options, Outputs::kOutOnly);
  BusyStream busy;
  for (int i = 0; i < 100; ++i) {
    const AttentionResult again = gpu::run_attention(in, options, Outputs::kOutOnly);
    ASSERT_TRUE(same_bits(again.out, first.out)) << "repeat " << i;
    ASSERT_TRUE(same_lut(again.lut.view(), first.lut.view())) << "repeat " << i;
  }
  EXPECT_GE(busy.calls_beside(), 90);
}

/// Kernels of a call start before the one before them has ended. Calls that share a workspace, one
/// right after the other, still do not meet in it.
TEST(GpuBehaviour, CallsOneAfterTheOtherShareAWorkspace) {
  VSA_NEEDS_GPU;
  const Qkv in[2] = {small_problem(DType::kBF16, 128, 1), small_problem(DType::kBF16, 128, 2)};
  const AttentionOptions options{.gate_coarse = Gate::one(), .select = {.topk = 5}};
  std::vector<DeviceTensor> tensors;  // q, k, v, out of each
  std::vector<AttentionArgs> args;
  const TestTensor empty(DType::kBF16, in[0].q.dims());
  for (const Qkv& x : in) {
    for (const TestTensor* t : {&x.q, &x.k, &x.v, &empty}) {
      tensors.emplace_back(t->view());
    }
  }
  for (size_t i = 0; i < 2; ++i) {
    const DeviceTensor* t = &tensors[4 * i];
    args.push_back({.q = t[0].view(),
                    .k = t[1].view(),
                    .v = t[2].view(),
                    .gate_coarse = options.gate_coarse,
                    .q_plan = &in[i].q_plan,
                    .kv_plan = &in[i].kv_plan,
                    .select = options.select,
                    .out = t[3].view()});
  }
  run_on_gpu([&](const Context& context) {
    for (int repeat = 0; repeat < 50; ++repeat) {
      for (const AttentionArgs& call : args) throw_if_error(attention_forward(context, call));
    }
    return Status();
  });
  for (size_t i = 0; i < 2; ++i) {
    TestTensor host_out(DType::kBF16, in[i].q.dims());
    tensors[4 * i + 3].download(host_out.view());
    EXPECT_TRUE(same_bits(host_out, gpu::run_attention(in[i], options, Outputs::kOutOnly).out));
  }
}

/// T41: a captured call, replayed after its table was overwritten, follows the new one.
TEST(GpuBehaviour, T41_GraphReplayFollowsNewTables) {
  VSA_NEEDS_GPU;
  const Qkv in = small_problem(DType::kF16);
  const Heads heads{1, 2, 1, 128};
  const int64_t num_tiles = in.q_plan.num_tiles();
  const LutBuffer before = random_lut(heads, num_tiles, num_tiles, 1);
  const LutBuffer after = random_lut(heads, num_tiles, num_tiles, 2);
  const DeviceTensor q(in.q.view());
  const DeviceTensor k(in.k.view());
  const DeviceTensor v(in.v.view());
  const DeviceLut table(before.view());
  TestTensor host_out(DType::kF16, in.q.dims());
  const DeviceTensor out(ConstTensor(host_out.view()));
  const FineArgs args{.q = q.view(),
                      .k = k.view(),
                      .v = v.view(),
                      .q_plan = &in.q_plan,
                      .kv_plan = &in.kv_plan,
                      .lut = table.view(),
                      .out = out.view()};
  int64_t size = 0;
  Context context{.backend = BackendId::kCuda};
  context.workspace_query = &size;
  throw_if_error(fine(context, args));
  const DeviceBytes workspace(size);
  cudaStream_t stream = nullptr;
  expect_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  context = {.backend = BackendId::kCuda,
             .stream = stream,
             .workspace = {.data = workspace.data(), .size_bytes = size}};
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  expect_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  throw_if_error(fine(context, args));
  expect_cuda(cudaStreamEndCapture(stream, &graph));
  expect_cuda(cudaGraphInstantiate(&exec, graph, 0));
  for (const LutBuffer* lut : {&before, &after, &before}) {
    const ConstLut view = lut->view();
    const auto rows = static_cast<size_t>(2 * num_tiles);
    expect_cuda(cudaMemcpy(table.view().index, view.index,
                           rows * static_cast<size_t>(view.dims.pitch) * 4,
                           cudaMemcpyHostToDevice));
    expect_cuda(cudaMemcpy(table.view().count, view.count, rows * 4, cudaMemcpyHostToDevice));
    expect_cuda(cudaMemset(workspace.data(), 0xFF, static_cast<size_t>(size)));
    expect_cuda(cudaDeviceSynchronize());
    expect_cuda(cudaGraphLaunch(exec, stream));
    expect_cuda(cudaStreamSynchronize(stream));
    out.download(host_out.view());
    expect_close(host_out, test::run_fine(kReference, as_f64(in), view).out,
                 fine_tolerance(in, view).out);
  }
  expect_cuda(cudaGraphExecDestroy(exec));
  expect_cuda(cudaGraphDestroy(graph));
  expect_cuda(cudaStreamDestroy(stream));
}

/// A call asks its source once, for what a query would have said; without an answer it is
/// OutOfMemory, and a call with a wrong argument does not ask.
TEST(GpuBehaviour, P17_ACallTakesItsWorkspaceFromASource) {
  VSA_NEEDS_GPU;
  const TilePlan plan = TilePlan::grid({.f = 4, .h = 8, .w = 8}, TileShape{}).value();
  const DeviceBytes x(int64_t{256} * 64 * 2);
  const DeviceBytes pooled(int64_t{4} * 64 * 4);
  PoolArgs args{.x = Tensor::bshd(x.data(), DType::kBF16, {1, 1, 256, 64}),
                .plan = &plan,
                .pooled = Tensor::bhsd(pooled.data(), DType::kF32, {1, 1, 4, 64})};
  int64_t expected = 0;
  Context query{.backend = BackendId::kCuda};
  query.workspace_query = &expected;
  throw_if_error(pool(query, args));

  struct Source {
    Workspace workspace;
    std::vector<int64_t> asked;
  };
  const DeviceBytes workspace(expected);
  Source source{.workspace = {workspace.data(), expected}, .asked = {}};
  Context context{.backend = BackendId::kCuda};
  context.workspace_source = {.take =
                                  [](void* user, int64_t size_bytes) {
                                    auto& own = *static_cast<Source*>(user);
                                    own.asked.push_back(size_bytes);
                                    return own.workspace;
                                  },
                              .user = &source};
  throw_if_error(pool(context, args));
  expect_cuda(cudaDeviceSynchronize());
  EXPECT_EQ(source.asked, std::vector<int64_t>{expected});

  source.workspace = {};
  EXPECT_EQ(pool(context, args).code(), StatusCode::kOutOfMemory);
  args.pooled.dtype = DType::kBF16;
  EXPECT_EQ(pool(context, args).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(source.asked.size(), 2U);
}

/// T19: an item of a batch gives the bits it gives alone.
TEST(GpuBehaviour, T19_BatchItemsAreIndependent) {
  VSA_NEEDS_GPU;
  const TilePlan plan = grid_plan({4, 8, 8}, kCube);
  const Heads heads{2, 3, 3, 128};
  const Qkv in = make_qkv(DType::kBF16, heads, plan, plan, 1);
  const AttentionOptions options{.gate_coarse = Gate::one(), .select = {.topk = 2}};
  const AttentionResult both = gpu::run_attention(in, options, Outputs::kOutOnly);
  for (int64_t b = 0; b < 2; ++b) {
    const Qkv alone{.q = batch_item(in.q, b),
                    .k = batch_item(in.k, b),
                    .v = batch_item(in.v, b),
                    .q_plan = plan,
                    .kv_plan = plan};
    EXPECT_TRUE(same_bits(batch_item(both.out, b),
                          gpu::run_attention(alone, options, Outputs::kOutOnly).out));
  }
}

/// Scores of a few hundred: the softmax is nearly one-hot. The reference decides how near.
TEST(GpuBehaviour, LargeScores) {
  VSA_NEEDS_GPU;
  const TilePlan plan = grid_plan({4, 8, 8}, kCube);
  const Heads heads{1, 2, 2, 128};
  const Qkv in{.q = token_tensor(DType::kBF16, heads, plan, 1, Order::kBshd, 16.0),
               .k = token_tensor(DType::kBF16, heads, plan, 2, Order::kBshd, 16.0),
               .v = token_tensor(DType::kBF16, heads, plan, 3),
               .q_plan = plan,
               .kv_plan = plan};
  const LutBuffer table = random_lut(heads, plan.num_tiles(), plan.num_tiles(), 4);
  const FineResult got = gpu::run_fine(in, table.view());
  const FineResult want = test::run_fine(kReference, as_f64(in), table.view());
  // Rounding probabilities and out to bf16 gives up to 2 * 2^-9. The rest is for scores near 1000,
  // of which an ulp is 2^-14 and exp makes a share of.
  EXPECT_LT(relative_l2(got.out, want.out), 0.01);
}

/// A long row: many steps through the rings, items of unequal length side by side.
TEST(GpuBehaviour, ManyTilesOfUnequalRows) {
  VSA_NEEDS_GPU;
  const TilePlan plan = grid_plan({9, 14, 18}, kCube);
  const Heads heads{1, 1, 1, 64};
  const Qkv in = make_qkv(DType::kBF16, heads, plan, plan, 1);
  const LutBuffer table = random_lut(heads, plan.num_tiles(), plan.num_tiles(), 4);
  expect_fine(gpu::run_fine(in, table.view()), in, table.view());
}

TEST(GpuBehaviour, HostMemoryIsRefused) {
  VSA_NEEDS_GPU;
  const Qkv in = small_problem(DType::kBF16);
  TestTensor pooled(DType::kF32, {1, 2, in.q_plan.num_tiles(), 128});
  alignas(16) static uint16_t memory[1 << 18];
  Tensor x = Tensor::bshd(memory, DType::kBF16, in.q.dims());
  const DeviceBytes workspace(1 << 20);
  const Status status =
      pool({.backend = BackendId::kCuda, .workspace = {workspace.data(), workspace.size()}},
           {.x = x, .plan = &in.q_plan, .pooled = pooled});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("[pool] x: expected device memory"), std::string::npos)
      << status.message();
}

/// Not q alone: a kernel that met host memory would end the process's use of the device.
TEST(GpuBehaviour, HostMemoryIsRefusedWhereverItIs) {
  VSA_NEEDS_GPU;
  const Qkv in = small_problem(DType::kBF16);
  const int64_t n = in.q_plan.num_tiles();
  const LutBuffer table = random_lut({1, 2, 1, 128}, n, n, 1);
  const DeviceTensor q(in.q.view()), k(in.k.view()), v(in.v.view());
  // At multiples of 16 bytes, as a call wants its rows: nothing but the place is wrong with it.
  alignas(16) static uint16_t host_memory[1 << 18];
  ASSERT_LE(in.q.view().num_elements(), std::ssize(host_memory));
  const Tensor host_k = Tensor::bshd(host_memory, DType::kBF16, in.k.dims());
  const Tensor host_out = Tensor::bshd(host_memory, DType::kBF16, in.q.dims());
  const DeviceTensor out{ConstTensor(host_out)};
  const DeviceLut device_table(table.view());
  const DeviceBytes workspace(64 << 20);
  const FineArgs good{.q = q.view(),
                      .k = k.view(),
                      .v = v.view(),
                      .q_plan = &in.q_plan,
                      .kv_plan = &in.kv_plan,
                      .lut = device_table.view(),
                      .out = out.view()};
  const auto expect_refused = [&](const FineArgs& args, void* memory, const std::string& name) {
    const Status status =
        fine({.backend = BackendId::kCuda, .workspace = {memory, workspace.size()}}, args);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("[fine] " + name + ": expected device memory"),
              std::string::npos)
        << status.message();
  };
  FineArgs args = good;
  args.k = host_k;
  expect_refused(args, workspace.data(), "k");
  args = good;
  args.lut = table.view();
  expect_refused(args, workspace.data(), "lut");
  args = good;
  args.out = host_out;
  expect_refused(args, workspace.data(), "out");
  std::vector<std::byte> host(static_cast<size_t>(workspace.size()) + 256);
  const auto address = reinterpret_cast<uintptr_t>(host.data());
  expect_refused(good, host.data() + (256 - address % 256), "workspace");
}

TEST(GpuBehaviour, ASmallWorkspaceIsRefused) {
  VSA_NEEDS_GPU;
  const Qkv in = small_problem(DType::kBF16);
  const DeviceTensor q(in.q.view());
  TestTensor host(DType::kF32, {1, 2, in.q_plan.num_tiles(), 128});
  const DeviceTensor pooled(ConstTensor(host.view()));
  const Status status = pool({.backend = BackendId::kCuda},
                             {.x = q.view(), .plan = &in.q_plan, .pooled = pooled.view()});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("[pool] workspace: expected"), std::string::npos)
      << status.message();
}

}  // namespace
}  // namespace vsa::test::gpu
