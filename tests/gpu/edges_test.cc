// Inputs at the edge of what the CUDA backend takes: NaN, tables that nobody checked, gates of 0,
// no workspace, too many heads.
#include <algorithm>
#include <cmath>
#include <limits>

#include "src/cuda/support/launch.h"
#include "tests/gpu/wild_table.h"
#include "tests/support/compare.h"

namespace vsa::test::gpu {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr Heads kTwoHeads{1, 2, 1, 128};

Qkv small_problem() {
  const TilePlan plan = grid_plan({5, 6, 9}, {4, 4, 4});
  return make_qkv(DType::kBF16, kTwoHeads, plan, plan, 1);
}

/// NaN in the same elements, and some but not all are.
void expect_same_nans(const TestTensor& got, const TestTensor& want) {
  const std::vector<double> a = got.values();
  const std::vector<double> b = want.values();
  ASSERT_EQ(a.size(), b.size());
  size_t nans = 0;
  size_t different = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    nans += std::isnan(b[i]) ? 1 : 0;
    different += std::isnan(a[i]) != std::isnan(b[i]) ? 1 : 0;
  }
  EXPECT_EQ(different, 0U) << "of " << a.size();
  EXPECT_GT(nans, 0U);
  EXPECT_LT(nans, a.size());
}

TEST(GpuEdges, NanInATokenReachesWhatTheReferenceSays) {
  VSA_NEEDS_GPU;
  const LutBuffer table = random_lut(kTwoHeads, 12, 12, 9);
  for (const char which : {'q', 'k', 'v'}) {
    SCOPED_TRACE(which);
    Qkv in = small_problem();
    ASSERT_EQ(in.q_plan.num_tiles(), 12);
    TestTensor& x = which == 'q' ? in.q : which == 'k' ? in.k : in.v;
    x.set(0, 0, 17, 3, kNan);
    const FineResult got = gpu::run_fine(in, table.view());
    const FineResult want = test::run_fine(kReference, as_f64(in), table.view());
    expect_same_nans(got.out, want.out);
    if (which != 'v') expect_same_nans(got.lse, want.lse);
  }
}

/// A query tile of NaN has no finite score at all; that is no reason for an output of 0.
TEST(GpuEdges, NanInAPooledQueryStaysNan) {
  VSA_NEEDS_GPU;
  const TilePlan plan = grid_plan({5, 6, 9}, {4, 4, 4});
  for (const CoarseRounding rounding : {CoarseRounding::kNone, CoarseRounding::kBf16}) {
    Qkv in{.q = normal_tensor(DType::kF32, {1, 2, 12, 128}, 1),
           .k = normal_tensor(DType::kF32, {1, 1, 12, 128}, 2),
           .v = normal_tensor(DType::kF32, {1, 1, 12, 128}, 3),
           .q_plan = plan,
           .kv_plan = plan};
    in.q.set(0, 1, 5, 3, kNan);
    const CoarseResult got = gpu::run_coarse(in, rounding);
    const Qkv wide = as_f64(in);
    const CoarseResult want =
        test::run_coarse(kReference, wide.q, wide.k, wide.v, plan, wide.scale, rounding);
    expect_same_nans(got.scores, want.scores);
    expect_same_nans(got.out, want.out);
  }
}

/// Tensor cores make NaN of an infinity, and of what they round to one; fp32 does not.
TEST(GpuEdges, InfinityAndTheLargestNumberInPooledTensors) {
  VSA_NEEDS_GPU;
  constexpr double kInf = std::numeric_limits<double>::infinity();
  // What is made again is not in the first CTA of rows or of columns.
  const TilePlan q_plan = grid_plan({20, 28, 16}, {4, 4, 4});
  const TilePlan kv_plan = grid_plan({20, 32, 20}, {4, 4, 4});
  constexpr int64_t kQTiles = 140;
  constexpr int64_t kKvTiles = 200;
  constexpr int64_t kTile = 135;
  constexpr int64_t kColumn = 100;
  for (const char which : {'q', 'k', 'v'}) {
    for (const double x : {kInf, -kInf, double{std::numeric_limits<float>::max()}}) {
      SCOPED_TRACE(testing::Message() << which << " " << x);
      Qkv in{.q = normal_tensor(DType::kF32, {1, 2, kQTiles, 128}, 1),
             .k = normal_tensor(DType::kF32, {1, 1, kKvTiles, 128}, 2),
             .v = normal_tensor(DType::kF32, {1, 1, kKvTiles, 128}, 3),
             .q_plan = q_plan,
             .kv_plan = kv_plan};
      for (int64_t h = 0; h < 2; ++h) {  // no product overflows
        for (int64_t tile = 0; tile < kQTiles; ++tile) in.q.set(0, h, tile, kColumn, 0.125);
      }
      for (int64_t tile = 0; tile < kKvTiles; ++tile) in.k.set(0, 0, tile, kColumn, 0.125);
      CoarseTolerance tolerance = coarse_tolerance(in);
      (which == 'q' ? in.q : which == 'k' ? in.k : in.v).set(0, 0, kTile, kColumn, x);
      if (std::isfinite(x)) tolerance = coarse_tolerance(in);
      const CoarseResult got = gpu::run_coarse(in);
      const Qkv wide = as_f64(in);
      const CoarseResult want = test::run_coarse(kReference, wide.q, wide.k, wide.v, kv_plan);
      expect_close(got.scores, want.scores, tolerance.scores);
      if (which == 'v' || std::isfinite(x)) expect_close(got.out, want.out, tolerance.out);
    }
  }
}

/// On the device nobody checks a table: what names no kv tile counts for nothing, and nothing
/// beyond the pitch is read.
TEST(GpuEdges, EntriesThatNameNoTileAreIgnored) {
  VSA_NEEDS_GPU;
  const Qkv in = small_problem();
  const WildTable table;
  const FineResult got = gpu::run_fine(in, table.wild.view());
  const FineResult want = gpu::run_fine(in, table.clean.view());
  EXPECT_TRUE(same_bits(got.out, want.out));
  EXPECT_TRUE(same_bits(got.lse, want.lse));
}

/// A gate that is the constant 0 removes its branch, whatever is in it.
TEST(GpuEdges, AGateOfZeroRemovesNan) {
  VSA_NEEDS_GPU;
  const TilePlan plan = grid_plan({5, 6, 9}, {4, 4, 4});
  TestTensor fine_out = token_tensor(DType::kBF16, kTwoHeads, plan, 1);
  TestTensor coarse_out = normal_tensor(DType::kF32, {1, 2, 12, 128}, 2);
  fine_out.set(0, 0, 5, 3, kNan);
  const Gate half = Gate::constant(0.5F);
  EXPECT_TRUE(
      same_bits(gpu::run_combine(fine_out, coarse_out, half, Gate::zero(), plan),
                test::run_combine(kReference, fine_out, coarse_out, half, Gate::zero(), plan)));

  Qkv in = small_problem();
  in.v.set(0, 0, 17, 3, kNan);
  const AttentionResult got = gpu::run_attention(
      in, {.gate_coarse = Gate::zero(), .gate_fine = Gate::zero(), .select = {.topk = 12}},
      Outputs::kAll);
  EXPECT_TRUE(same_bits(got.out, constant_tensor(DType::kBF16, in.q.dims(), 0.0)));
}

/// The lse is asked for, the fine branch is not.
TEST(GpuEdges, LseWithAGateOfZero) {
  VSA_NEEDS_GPU;
  Qkv in = small_problem();
  in.v.set(0, 0, 17, 3, kNan);
  const DeviceTensor q(in.q.view());
  const DeviceTensor k(in.k.view());
  const DeviceTensor v(in.v.view());
  TestTensor out(DType::kBF16, in.q.dims());
  TestTensor lse(DType::kF32, {1, 2, in.q_plan.seq_len(), 1});
  const DeviceTensor device_out(ConstTensor(out.view()));
  const DeviceTensor device_lse(ConstTensor(lse.view()));
  AttentionArgs args;
  args.q = q.view();
  args.k = k.view();
  args.v = v.view();
  args.gate_coarse = args.gate_fine = Gate::zero();
  args.q_plan = &in.q_plan;
  args.kv_plan = &in.kv_plan;
  args.select = {.topk = 12};
  args.out = device_out.view();
  args.lse = device_lse.view();
  run_on_gpu([&](const Context& c) { return attention_forward(c, args); });
  device_out.download(out.view());
  device_lse.download(lse.view());
  EXPECT_TRUE(same_bits(out, constant_tensor(DType::kBF16, in.q.dims(), 0.0)));
  const LutBuffer all = LutBuffer::dense({1, 2, 12, 12});
  expect_close(lse, test::run_fine(kReference, as_f64(in), all.view()).lse,
               fine_tolerance(in, all.view()).lse);
}

/// select without lists asks for no workspace, so none need be given.
TEST(GpuEdges, ANullWorkspaceWhereNoneIsNeeded) {
  VSA_NEEDS_GPU;
  const TestTensor scores = normal_tensor(DType::kF32, {1, 1, 3, 9}, 1);
  const DeviceTensor from(scores.view());
  LutBuffer lut({1, 1, 3, 2});
  const DeviceLut to(lut.view());
  const SelectArgs args{.coarse_scores = from.view(), .options = {.topk = 2}, .lut = to.view()};
  int64_t size = -1;
  Context context{.backend = BackendId::kCuda};
  context.workspace_query = &size;
  throw_if_error(select(context, args));
  EXPECT_EQ(size, 0);
  throw_if_error(select({.backend = BackendId::kCuda}, args));
  expect_cuda(cudaDeviceSynchronize());
  to.download(lut.view());
  EXPECT_TRUE(same_lut(lut.view(), test::run_select(kReference, scores, {.topk = 2}).view()));
}

TEST(GpuEdges, TooManyHeadsForAGridAreRefused) {
  VSA_NEEDS_GPU;
  const Dims dims{65536, 1, 1, 64};
  const TilePlan plan = grid_plan({1, 1, 1}, {1, 1, 1});
  const TestTensor x = constant_tensor(DType::kF32, dims, 1.0);
  const Qkv pooled{.q = x, .k = x, .v = x, .q_plan = plan, .kv_plan = plan};
  try {
    gpu::run_coarse(pooled);
    ADD_FAILURE() << "expected Unsupported";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), StatusCode::kUnsupported) << e.what();
  }
}

/// What a failed call says is in its Status; the caller's next check of the runtime finds nothing.
TEST(GpuEdges, AFailedCallLeavesNoErrorBehind) {
  VSA_NEEDS_GPU;
  const cudaError_t error = cudaSetDevice(9999);
  ASSERT_NE(error, cudaSuccess);
  ASSERT_NE(cudaPeekAtLastError(), cudaSuccess);
  EXPECT_EQ(cuda::check("pool", error).code(), StatusCode::kDeviceError);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
}

}  // namespace
}  // namespace vsa::test::gpu
