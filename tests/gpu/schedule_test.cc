// Which query tiles share a schedule, and that the result does not depend on which CTA computes it.
#include <algorithm>
#include <tuple>
#include <vector>

#include "src/core/lut_row.h"
#include "src/cuda/combine/combine.h"
#include "src/cuda/family.h"
#include "src/cuda/plan/schedule_build.h"
#include "tests/gpu/cases.h"
#include "tests/gpu/output.h"

namespace vsa::test::gpu {
namespace {

constexpr int64_t kHeadDim = 128;

/// Heads of the schedules at head_dim 128, [batch * heads, pairs].
std::vector<cuda::ScheduleHead> schedule_heads(const TilePlan& q_plan, const TilePlan& kv_plan,
                                               const ConstLut& lut) {
  const DeviceLut table(lut);
  std::vector<cuda::ScheduleHead> heads;
  run_on_gpu([&](const Context& c) {
    const auto stream = static_cast<cudaStream_t>(c.stream);
    cuda::Carver workspace(c);
    const cuda::PlanTables plans("schedule", workspace, &q_plan, &kv_plan);
    const cuda::Schedule schedule(workspace, plans, lut.dims, cuda::PairBy::kSharedTiles);
    if (workspace.answers_query()) return Status();
    throw_if_error(plans.build(call_site("schedule", c)));
    throw_if_error(schedule.build(call_site("schedule", c), plans, table.view()));
    expect_cuda(cudaStreamSynchronize(stream));
    heads.resize(static_cast<size_t>(schedule.num_items()));
    expect_cuda(cudaMemcpy(heads.data(), schedule.heads(),
                           heads.size() * sizeof(cuda::ScheduleHead), cudaMemcpyDeviceToHost));
    return Status();
  });
  return heads;
}

/// Row i keeps every tile j for which keeps(i, j).
template <class Keeps>
LutBuffer table_of(int64_t num_heads, int64_t num_tiles, const Keeps& keeps) {
  LutBuffer table({1, num_heads, num_tiles, num_tiles});
  const Lut view = table.view();
  for (int64_t row = 0; row < num_heads * num_tiles; ++row) {
    int32_t* index = view.index + row * num_tiles;
    int32_t& count = view.count[row];
    for (int32_t j = 0; j < num_tiles; ++j) {
      if (keeps(row % num_tiles, j)) index[count++] = j;
    }
  }
  return table;
}

/// Query tiles of a window two by two, by sorting.
struct Pair {
  int64_t first, second;  // second -1: none
  int64_t common;
};
std::vector<Pair> pairs_of_window(const ConstLut& lut, int64_t h, int64_t begin, int64_t end) {
  const auto common = [&](int64_t i, int64_t j) {
    const auto a = lut_row(lut, 0, h, i);
    const auto b = lut_row(lut, 0, h, j);
    return std::ranges::count_if(a, [&](int32_t t) { return std::ranges::binary_search(b, t); });
  };
  std::vector<Pair> all;
  std::vector<Pair> neighbours;
  int64_t of_neighbours = 0;
  for (int64_t i = begin; i < end; ++i) {
    for (int64_t j = i + 1; j < end; ++j) all.push_back({i, j, common(i, j)});
    if ((i - begin) % 2 == 0) {
      neighbours.push_back(i + 1 < end ? Pair{i, i + 1, common(i, i + 1)} : Pair{i, -1, 0});
      of_neighbours += neighbours.back().common;
    }
  }
  const auto rank = [&](const Pair& p) {
    const bool is_far = p.second != p.first + 1 || (p.first - begin) % 2 != 0;
    return std::tuple(-p.common, is_far, p.first, p.second);
  };
  std::ranges::sort(all, {}, rank);
  std::vector<Pair> best;
  std::vector<bool> is_taken(static_cast<size_t>(end));
  int64_t of_best = 0;
  for (const Pair& p : all) {
    const auto i = static_cast<size_t>(p.first);
    const auto j = static_cast<size_t>(p.second);
    if (is_taken[i] || is_taken[j]) continue;
    is_taken[i] = is_taken[j] = true;
    best.push_back(p);
    of_best += p.common;
  }
  for (int64_t i = begin; i < end; ++i) {
    if (!is_taken[static_cast<size_t>(i)]) best.push_back({i, -1, 0});
  }
  if (of_best < of_neighbours) return neighbours;
  std::ranges::sort(best, {}, &Pair::first);
  return best;
}

TEST(GpuSchedule, PairsBestFirst) {
  VSA_NEEDS_GPU;
  constexpr int64_t kWindow = 64;
  const TilePlan kv_plan = grid_plan({4, 4, 4 * 90}, {4, 4, 4});  // a step a tile
  for (const int64_t num_tiles : {1, 2, 3, 63, 64, 65, 129, 200}) {
    SCOPED_TRACE(num_tiles);
    const LutBuffer table = random_lut({1, 2, 2, kHeadDim}, num_tiles, 90, 3);
    const auto heads = schedule_heads(row_of_tiles(num_tiles), kv_plan, table.view());
    size_t at = 0;
    for (int64_t h = 0; h < 2; ++h) {
      for (int64_t begin = 0; begin < num_tiles; begin += kWindow) {
        const int64_t end = std::min(begin + kWindow, num_tiles);
        for (const Pair& want : pairs_of_window(table.view(), h, begin, end)) {
          ASSERT_LT(at, heads.size());
          const cuda::ScheduleHead& got = heads[at++];
          ASSERT_EQ(got.q_block[0], want.first);
          ASSERT_EQ(got.q_block[1], want.second);
          EXPECT_EQ(got.num_common, want.common);
          EXPECT_EQ(got.num_exclusive[0],
                    std::ssize(lut_row(table.view(), 0, h, want.first)) - want.common);
        }
      }
    }
    EXPECT_EQ(at, heads.size());
  }
}

/// Every list is another tile's, and has nothing in common with all others.
TEST(GpuSchedule, PairsTilesOfOneList) {
  VSA_NEEDS_GPU;
  constexpr int kTiles = 64;
  const LutBuffer table =
      table_of(2, kTiles, [](int64_t i, int64_t j) { return i % 32 == j % 32; });
  const auto heads = schedule_heads(row_of_tiles(kTiles), row_of_tiles(kTiles), table.view());
  ASSERT_EQ(std::ssize(heads), 2 * kTiles / 2);
  for (int i = 0; i < std::ssize(heads); ++i) {
    const cuda::ScheduleHead& head = heads[static_cast<size_t>(i)];
    EXPECT_EQ(head.q_block[0], i % 32);
    EXPECT_EQ(head.q_block[1], i % 32 + 32);
    EXPECT_EQ(head.num_common, 1) << "two tokens share a step";
    EXPECT_EQ(head.num_exclusive[0] + head.num_exclusive[1], 0);
  }
}

/// Tile 1 has most in common with 2, but then 0 and 3 have nothing: neighbours are better.
TEST(GpuSchedule, NeighboursWhereBestFirstIsWorse) {
  VSA_NEEDS_GPU;
  const int64_t ranges[][2] = {{0, 10}, {0, 20}, {9, 29}, {19, 29}};
  const LutBuffer table = table_of(1, 40, [&](int64_t i, int64_t j) {
    if (i > 3) return i / 2 == j;
    return j >= ranges[i][0] && j < ranges[i][1];
  });
  const TilePlan plan = row_of_tiles(40);
  const auto heads = schedule_heads(plan, plan, table.view());
  for (int i = 0; i < std::ssize(heads); ++i) {
    EXPECT_EQ(heads[static_cast<size_t>(i)].q_block[0], 2 * i);
    EXPECT_EQ(heads[static_cast<size_t>(i)].q_block[1], 2 * i + 1);
  }
}

// --- distribution of units: pairs, single halves, all in one CTA, one in each

/// out and lse, computed with units as on a device of num_sms multiprocessors.
struct Distributed {
  int num_sms;
  FineResult result;
};
std::vector<Distributed> distribute(const Qkv& in, const ConstLut& lut, const Gate& gate_coarse,
                                    const std::vector<int>& nums_of_sms) {
  const auto& [batch, num_heads, seq_len, head_dim] = in.q.dims();
  const DeviceTensor q(in.q.view());
  const DeviceTensor k(in.k.view());
  const DeviceTensor v(in.v.view());
  const DeviceLut table(lut);
  const DeviceGate gate(gate_coarse);
  const TestTensor coarse =
      normal_tensor(DType::kF32, {batch, num_heads, in.q_plan.num_tiles(), head_dim}, 9);
  const DeviceTensor coarse_out(coarse.view());
  std::vector<Distributed> all;
  for (const int num_sms : nums_of_sms) {
    Output out(in.q.dtype(), in.q.dims(), in.q.order());
    Output lse(DType::kF32, {batch, num_heads, seq_len, 1}, in.q.order());
    run_on_gpu([&](const Context& c) {
      const cuda::CallSite at = call_site("fine", c, num_sms);
      cuda::Carver workspace(c);
      const cuda::PlanTables plans("fine", workspace, &in.q_plan, &in.kv_plan);
      const auto fine =
          cuda::family_for(in.q.view().data).fine(workspace, plans, lut.dims, head_dim);
      if (workspace.answers_query()) return Status();
      throw_if_error(plans.build(at));
      throw_if_error(fine->prepare(at, plans, table.view()));
      cuda::FineCombine combine;
      if (!gate_coarse.is_zero()) {
        combine.coarse_out = static_cast<const float*>(coarse_out.view().data);
        combine.gate_coarse = cuda::gate_rows(gate.gate());
      }
      return fine->launch(at,
                          {.q = q.view(),
                           .k = k.view(),
                           .v = v.view(),
                           .q_plan = &in.q_plan,
                           .kv_plan = &in.kv_plan,
                           .lut = table.view(),
                           .scale = in.scale.value_or(default_scale(head_dim)),
                           .out = out,
                           .lse = lse},
                          plans, combine);
    });
    all.push_back({num_sms, {.out = out.take(), .lse = lse.take()}});
  }
  return all;
}

class GpuDistribution : public testing::TestWithParam<GpuCase> {};
INSTANTIATE_TEST_SUITE_P(Cases, GpuDistribution, testing::ValuesIn(gpu_cases()),
                         [](const auto& c) { return c.param.name; });

/// At head_dim 128 all items are pairs on one multiprocessor, and on two if their number is even;
/// on many all are split into single halves; in between, some are.
TEST_P(GpuDistribution, TheSameBitsOnAnyNumberOfMultiprocessors) {
  VSA_NEEDS_GPU;
  const GpuCase& c = GetParam();
  for (const DType dtype : kTokenDtypes) {
    SCOPED_TRACE(name(dtype));
    const Qkv in = make_qkv(dtype, c.heads, c.q_plan, c.kv_plan, 1, c.order);
    const LutBuffer table = random_lut(c.heads, c.q_plan.num_tiles(), c.kv_plan.num_tiles(), 2);
    const auto all = distribute(in, table.view(), Gate::zero(), {1, 2, 3, 7, 132});
    expect_fine(all[0].result, in, table.view());
    for (const Distributed& one : all) {
      EXPECT_TRUE(same_bits(one.result.out, all[0].result.out)) << one.num_sms;
      EXPECT_TRUE(same_bits(one.result.lse, all[0].result.lse)) << one.num_sms;
    }
    const TestTensor gate = normal_tensor(dtype, in.q.dims(), 5, c.order);
    const auto gated = distribute(in, table.view(), Gate::tensor(gate.view()), {1, 3, 132});
    for (const Distributed& one : gated) {
      EXPECT_TRUE(same_bits(one.result.out, gated[0].result.out)) << one.num_sms;
    }
  }
}

}  // namespace
}  // namespace vsa::test::gpu
