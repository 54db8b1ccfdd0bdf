// What the CUDA backend's gradients promise besides parity: the same bits, graphs, rows and tiles
// that take no part, tables that nobody checked, refusals.
#include <algorithm>
#include <limits>

#include "tests/gpu/wild_table.h"
#include "tests/support/compare.h"

namespace vsa::test::gpu {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr Heads kHeads{1, 4, 2, 128};
const TileShape kCube{4, 4, 4};

/// A problem with gates, and what the device's own forward gave.
struct Trained {
  Qkv in;
  TestTensor gate, dout;
  AttentionOptions options;
  AttentionResult forward;

  Trained(DType dtype, const Heads& heads, const TilePlan& q_plan, const TilePlan& kv_plan,
          int64_t topk)
      : in(make_qkv(dtype, heads, q_plan, kv_plan, 1)),
        gate(token_tensor(dtype, heads, q_plan, 5)),
        dout(token_tensor(dtype, heads, q_plan, 6)) {
    options.gate_coarse = Gate::tensor(gate.view());
    options.select.topk = topk;
    forward = gpu::run_attention(in, options, Outputs::kAll);
  }
  AttentionGradients gradients() const {
    return gpu::run_attention_backward(in, options, forward, dout);
  }
};

testing::AssertionResult same(const AttentionGradients& a, const AttentionGradients& b) {
  const std::pair<const TestTensor*, const TestTensor*> pairs[] = {
      {&a.dq, &b.dq},
      {&a.dk, &b.dk},
      {&a.dv, &b.dv},
      {&a.dgate_coarse, &b.dgate_coarse},
      {&a.dgate_fine, &b.dgate_fine}};
  for (const auto& [x, y] : pairs) {
    if (const auto result = same_bits(*x, *y); !result) return result;
  }
  return testing::AssertionSuccess();
}

/// T13: a store that nobody waits for shows as bits that change while the device is busy.
TEST(GpuBackwardBehaviour, T13_TheSameBitsHundredTimes) {
  VSA_NEEDS_GPU;
  const TilePlan plan = grid_plan({6, 9, 13}, kCube);
  const Trained problem(DType::kBF16, kHeads, plan, plan, 5);
  const AttentionGradients first = problem.gradients();
  BusyStream busy;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(same(problem.gradients(), first)) << "repeat " << i;
  }
  EXPECT_GE(busy.calls_beside(), 90);
}

/// T41: a captured call, replayed after its table was overwritten, follows the new one.
TEST(GpuBackwardBehaviour, T41_GraphReplayFollowsNewTables) {
  VSA_NEEDS_GPU;
  const TilePlan plan = grid_plan({6, 9, 13}, kCube);
  const int64_t n = plan.num_tiles();
  const Qkv in = make_qkv(DType::kF16, kHeads, plan, plan, 1);
  const TestTensor dout = token_tensor(DType::kF16, kHeads, plan, 6);
  const DeviceTensor q(in.q.view()), k(in.k.view()), v(in.v.view()), device_dout(dout.view());
  TestTensor host_dq(DType::kF16, in.q.dims());
  TestTensor host_dk(DType::kF16, in.k.dims());
  TestTensor host_dv(DType::kF16, in.k.dims());
  const DeviceTensor dq(ConstTensor(host_dq.view())), dk(ConstTensor(host_dk.view())),
      dv(ConstTensor(host_dv.view()));
  const LutBuffer tables[] = {random_lut(kHeads, n, n, 1), random_lut(kHeads, n, n, 2)};
  std::vector<AttentionResult> forwards;
  for (const LutBuffer& table : tables) {
    forwards.push_back(test::run_attention(kReference, in, {.lut = table.view()}));
  }
  const DeviceTensor fine_out(forwards[0].fine_out.view()), lse(forwards[0].lse.view());
  const DeviceLut table(tables[0].view());
  AttentionBackwardArgs args;
  args.q = q.view();
  args.k = k.view();
  args.v = v.view();
  args.gate_coarse = Gate::one();
  args.q_plan = args.kv_plan = &plan;
  args.lut = table.view();
  args.lse = lse.view();
  args.fine_out = fine_out.view();
  args.dout = device_dout.view();
  args.dq = dq.view();
  args.dk = dk.view();
  args.dv = dv.view();
  int64_t size = 0;
  Context context{.backend = BackendId::kCuda};
  context.workspace_query = &size;
  throw_if_error(attention_backward(context, args));
  const DeviceBytes workspace(size);
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  expect_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  expect_cuda(cudaDeviceSynchronize());
  expect_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  throw_if_error(attention_backward(
      {.backend = BackendId::kCuda, .stream = stream, .workspace = {workspace.data(), size}},
      args));
  expect_cuda(cudaStreamEndCapture(stream, &graph));
  expect_cuda(cudaGraphInstantiate(&exec, graph, 0));
  for (const size_t i : {0, 1, 0}) {
    const auto copy = [](void* to, const void* from, int64_t bytes) {
      expect_cuda(cudaMemcpy(to, from, static_cast<size_t>(bytes), cudaMemcpyHostToDevice));
    };
    const AttentionResult& forward = forwards[i];
    const ConstLut lut = tables[i].view();
    copy(table.view().index, lut.index, 4 * n * lut.dims.pitch * 4);
    copy(table.view().count, lut.count, 4 * n * 4);
    copy(fine_out.view().data, forward.fine_out.view().data, in.q.view().num_elements() * 2);
    copy(lse.view().data, forward.lse.view().data, forward.lse.view().num_elements() * 4);
    expect_cuda(cudaMemset(workspace.data(), 0xFF, static_cast<size_t>(size)));
    expect_cuda(cudaDeviceSynchronize());
    expect_cuda(cudaGraphLaunch(exec, stream));
    expect_cuda(cudaStreamSynchronize(stream));
    dq.download(host_dq.view());
    dk.download(host_dk.view());
    dv.download(host_dv.view());
    const AttentionGradients want =
        gpu::run_attention_backward(in, {.lut = tables[i].view()}, forward, dout);
    EXPECT_TRUE(same_bits(host_dq, want.dq));
    EXPECT_TRUE(same_bits(host_dk, want.dk));
    EXPECT_TRUE(same_bits(host_dv, want.dv));
  }
  expect_cuda(cudaGraphExecDestroy(exec));
  expect_cuda(cudaGraphDestroy(graph));
  expect_cuda(cudaStreamDestroy(stream));
}

/// T19: items of a batch give the bits they give alone.
void expect_independent(const std::vector<int64_t>& items, Heads heads, const TilePlan& plan,
                        int64_t topk) {
  const Trained all(DType::kBF16, heads, plan, plan, topk);
  const AttentionGradients got = all.gradients();
  heads.batch = 1;
  for (const int64_t b : items) {
    SCOPED_TRACE(testing::Message() << "batch item " << b);
    Trained alone(DType::kBF16, heads, plan, plan, topk);
    alone.in.q = batch_item(all.in.q, b);
    alone.in.k = batch_item(all.in.k, b);
    alone.in.v = batch_item(all.in.v, b);
    alone.gate = batch_item(all.gate, b);
    alone.dout = batch_item(all.dout, b);
    alone.options.gate_coarse = Gate::tensor(alone.gate.view());
    alone.forward = gpu::run_attention(alone.in, alone.options, Outputs::kAll);
    const AttentionGradients want = alone.gradients();
    EXPECT_TRUE(same({batch_item(got.dq, b), batch_item(got.dk, b), batch_item(got.dv, b),
                      batch_item(got.dgate_coarse, b), batch_item(got.dgate_fine, b)},
                     want));
  }
}

TEST(GpuBackwardBehaviour, T19_BatchItemsAreIndependent) {
  VSA_NEEDS_GPU;
  expect_independent({0, 1}, {2, 4, 2, 128}, grid_plan({4, 8, 8}, kCube), 2);
}

/// Every multiprocessor takes several items of the batch; of one, there are fewer than these.
TEST(GpuBackwardBehaviour, T19_ItemsOfLargeTilesAreIndependent) {
  VSA_NEEDS_GPU;
  const TilePlan plan = grid_plan({4, 16, 10}, {2, 8, 8});
  for (const int64_t head_dim : {64, 128}) {
    expect_independent({0, 7, 15}, {16, 4, 2, head_dim}, plan, 5);
  }
}

/// Coarse gradients in pieces of heads are those of each head alone.
TEST(GpuBackwardBehaviour, PiecesOfHeadsGiveTheSameBits) {
  VSA_NEEDS_GPU;
  const TilePlan plan = grid_plan({1, 1, 2000}, {1, 1, 1});
  const auto tensor = [&](uint64_t seed) {
    return normal_tensor(DType::kF32, {2, 3, 2000, 64}, seed, Order::kBhsd);
  };
  const Qkv all{.q = tensor(1), .k = tensor(2), .v = tensor(3), .q_plan = plan, .kv_plan = plan};
  const TestTensor dout = tensor(4);
  const Gradients got = gpu::run_coarse_backward(all, dout);
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t h = 0; h < 3; ++h) {
      const auto head = [&](const TestTensor& x) {
        TestTensor one(DType::kF32, {1, 1, 2000, 64});
        const std::vector<double> values = x.values();
        const auto first = values.begin() + (b * 3 + h) * 2000 * 64;
        one.set_values({first, first + 2000 * 64});
        return one;
      };
      const Qkv alone{
          .q = head(all.q), .k = head(all.k), .v = head(all.v), .q_plan = plan, .kv_plan = plan};
      const Gradients want = gpu::run_coarse_backward(alone, head(dout));
      EXPECT_TRUE(same_bits(head(got.dq), want.dq)) << b << ", " << h;
      EXPECT_TRUE(same_bits(head(got.dk), want.dk)) << b << ", " << h;
      EXPECT_TRUE(same_bits(head(got.dv), want.dv)) << b << ", " << h;
    }
  }
}

/// T14, and tiles in their own order.
TEST(GpuBackwardBehaviour, T14_QueriesAndKeysOfOtherLengths) {
  VSA_NEEDS_GPU;
  const TilePlan q_plan = tiled_plan(std::vector<int32_t>(3, 64), 64);
  const TilePlan kv_plan = tiled_plan(std::vector<int32_t>(7, 64), 64);
  const Heads heads{2, 3, 3, 128};
  const Qkv in = make_qkv(DType::kBF16, heads, q_plan, kv_plan, 1);
  const TestTensor dout = token_tensor(DType::kBF16, heads, q_plan, 6);
  const LutBuffer table = random_lut(heads, 3, 7, 2);
  const FineResult forward = test::run_fine(kReference, in, table.view());
  const Gradients got = gpu::run_fine_backward(in, table.view(), forward, dout);
  const Gradients want = test::run_fine_backward(
      kReference, as_f64(in), table.view(),
      {.out = forward.out.as(DType::kF64), .lse = forward.lse.as(DType::kF64)},
      dout.as(DType::kF64));
  const GradientTolerance tolerance = fine_backward_tolerance(in, table.view(), forward, dout);
  expect_close(got.dq, want.dq, tolerance.dq);
  expect_close(got.dk, want.dk, tolerance.dk);
  expect_close(got.dv, want.dv, tolerance.dv);
}

/// Scores so far below 0 that exp(0 - lse) is infinite: rows of shared memory without a token,
/// which a short tile leaves after full ones, must not meet the statistics of the rows before them.
TEST(GpuBackwardBehaviour, ScoresFarBelowZeroAndAShortTile) {
  VSA_NEEDS_GPU;
  // Full tiles and one of 16 tokens; full tiles of two blocks, which share a stream, and one of two
  // blocks of 8 tokens.
  for (const TilePlan& plan :
       {grid_plan({4, 4, 8 * 4 + 1}, kCube), grid_plan({4, 4, 7 * 8 + 1}, {4, 4, 8})}) {
    const int64_t n = plan.num_tiles();
    const LutBuffer table = full_lut(1, 1, n, n);
    for (const int64_t head_dim : {64, 128}) {
      for (const DType dtype : kTokenDtypes) {
        SCOPED_TRACE(testing::Message() << head_dim << ", " << name(dtype));
        const Heads heads{1, 1, 1, head_dim};
        Qkv in = make_qkv(dtype, heads, plan, plan, 1);
        for (int64_t s = 0; s < plan.seq_len(); ++s) {
          for (int64_t d = 0; d < head_dim; ++d) {
            in.q.set(0, 0, s, d, in.q.at(0, 0, s, d) / 4.0 - 4.0);
            in.k.set(0, 0, s, d, in.k.at(0, 0, s, d) / 4.0 + 4.0);
          }
        }
        const TestTensor dout = token_tensor(dtype, heads, plan, 6);
        const FineResult forward = test::run_fine(kReference, in, table.view());
        ASSERT_LT(forward.lse.at(0, 0, 0, 0), -100.0);  // exp(100) > 2^128
        const Gradients got = gpu::run_fine_backward(in, table.view(), forward, dout);
        const Gradients want = test::run_fine_backward(
            kReference, as_f64(in), table.view(),
            {.out = forward.out.as(DType::kF64), .lse = forward.lse.as(DType::kF64)},
            dout.as(DType::kF64));
        const GradientTolerance tolerance =
            fine_backward_tolerance(in, table.view(), forward, dout);
        expect_close(got.dq, want.dq, tolerance.dq);
        expect_close(got.dk, want.dk, tolerance.dk);
        expect_close(got.dv, want.dv, tolerance.dv);
      }
    }
  }
}

/// T16, T17: rows without tiles, tiles that nobody keeps and padding have gradients of exactly 0;
/// an empty tile changes nothing.
TEST(GpuBackwardBehaviour, T16_T17_WhatTakesNoPartHasNoGradient) {
  VSA_NEEDS_GPU;
  const TilePlan plan = tiled_plan({64, 0, 40, 64}, 64);
  const Heads heads{1, 2, 2, 64};
  const Qkv in = make_qkv(DType::kBF16, heads, plan, plan, 1);
  const TestTensor dout = token_tensor(DType::kBF16, heads, plan, 6);
  const auto gradients = [&](const std::vector<std::vector<int32_t>>& rows) {
    const LutBuffer table = lut_of_rows(1, 2, rows);
    const FineResult forward = gpu::run_fine(in, table.view());
    return gpu::run_fine_backward(in, table.view(), forward, dout);
  };
  const Gradients got = gradients({{0, 2}, {}, {}, {2}});
  const auto expect_zero = [](const TestTensor& x, int64_t first, int64_t last) {
    for (int64_t s = first; s < last; ++s) {
      for (int64_t d = 0; d < 64; ++d) ASSERT_EQ(x.at(0, 1, s, d), 0.0) << s << ", " << d;
    }
  };
  expect_zero(got.dq, 64, 192);  // the empty tile, the row without tiles, padding
  expect_zero(got.dk, 64, 128);
  expect_zero(got.dk, 168, 256);  // padding of tile 2, tile 3
  expect_zero(got.dv, 168, 256);
  EXPECT_NE(got.dq.at(0, 1, 200, 3), 0.0);
  EXPECT_NE(got.dv.at(0, 1, 130, 3), 0.0);
  const Gradients with_empty = gradients({{0, 1, 2}, {0, 1}, {1}, {1, 2}});
  EXPECT_TRUE(same_bits(with_empty.dq, got.dq));
  EXPECT_TRUE(same_bits(with_empty.dk, got.dk));
  EXPECT_TRUE(same_bits(with_empty.dv, got.dv));
}

/// T18: what lies in padding changes no bit.
TEST(GpuBackwardBehaviour, T18_PaddingIsNeverRead) {
  VSA_NEEDS_GPU;
  const TilePlan plan = tiled_plan({64, 1, 0, 37, 64, 5}, 64);
  Trained problem(DType::kF16, kHeads, plan, plan, 3);
  const AttentionGradients with_nan = problem.gradients();
  for (TestTensor* x : {&problem.in.q, &problem.in.k, &problem.in.v, &problem.gate, &problem.dout,
                        &problem.forward.fine_out, &problem.forward.lse}) {
    fill_padding(*x, plan, 1e4);
  }
  EXPECT_TRUE(same(problem.gradients(), with_nan));
}

/// What names no kv tile counts for nothing, as in forward.
TEST(GpuBackwardBehaviour, EntriesThatNameNoTileAreIgnored) {
  VSA_NEEDS_GPU;
  const TilePlan plan = grid_plan({5, 6, 9}, kCube);
  const Heads heads{1, 2, 1, 128};
  const Qkv in = make_qkv(DType::kBF16, heads, plan, plan, 1);
  const TestTensor dout = token_tensor(DType::kBF16, heads, plan, 6);
  const WildTable table;
  const FineResult forward = gpu::run_fine(in, table.clean.view());
  const Gradients got = gpu::run_fine_backward(in, table.wild.view(), forward, dout);
  const Gradients want = gpu::run_fine_backward(in, table.clean.view(), forward, dout);
  EXPECT_TRUE(same_bits(got.dq, want.dq));
  EXPECT_TRUE(same_bits(got.dk, want.dk));
  EXPECT_TRUE(same_bits(got.dv, want.dv));
}

/// A gate that is the constant 0 removes its branch, whatever is in it.
TEST(GpuBackwardBehaviour, AGateOfZeroRemovesNan) {
  VSA_NEEDS_GPU;
  const TilePlan plan = grid_plan({5, 6, 9}, kCube);
  Trained problem(DType::kBF16, kHeads, plan, plan, 12);
  problem.in.v.set(0, 0, 17, 3, kNan);
  problem.forward.fine_out.set(0, 0, 5, 3, kNan);
  problem.options.gate_coarse = problem.options.gate_fine = Gate::zero();
  const AttentionGradients got = problem.gradients();
  EXPECT_TRUE(same_bits(got.dq, constant_tensor(DType::kBF16, got.dq.dims(), 0.0)));
  EXPECT_TRUE(same_bits(got.dk, constant_tensor(DType::kBF16, got.dk.dims(), 0.0)));
  EXPECT_TRUE(same_bits(got.dv, constant_tensor(DType::kBF16, got.dv.dims(), 0.0)));
}

TEST(GpuBackwardBehaviour, HostMemoryAndASmallWorkspaceAreRefused) {
  VSA_NEEDS_GPU;
  const TilePlan plan = grid_plan({5, 6, 9}, kCube);
  const TestTensor dpooled = normal_tensor(DType::kF32, {1, 2, 12, 64}, 1);
  TestTensor dx(DType::kBF16, {1, 2, plan.seq_len(), 64});
  const DeviceTensor device_dpooled(dpooled.view());
  const DeviceTensor device_dx(ConstTensor(dx.view()));
  const DeviceBytes workspace(1 << 20);
  const auto expect_refused = [](const Status& status, const char* text) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find(text), std::string::npos) << status.message();
  };
  expect_refused(
      pool_backward({.backend = BackendId::kCuda},
                    {.dpooled = device_dpooled.view(), .plan = &plan, .dx = device_dx.view()}),
      "[pool_backward] workspace: expected");
  expect_refused(pool_backward({.backend = BackendId::kCuda,
                                .workspace = {workspace.data(), workspace.size()}},
                               {.dpooled = dpooled.view(), .plan = &plan, .dx = device_dx.view()}),
                 "[pool_backward] dpooled: expected device memory");
}

}  // namespace
}  // namespace vsa::test::gpu
