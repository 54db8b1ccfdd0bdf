// Sizes of schedules and of whole calls, as the queries for workspace tell them. No device needed:
// a query reads no tensor.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/cuda/plan/schedule_build.h"
#include "src/cuda/stages.h"

namespace vsa::cuda {
namespace {

/// What a call says it needs.
template <class Args>
int64_t workspace_of(Status (*call)(const Context&, const Args&), const Args& args) {
  int64_t size = -1;
  Context context{.backend = BackendId::kCuda};
  context.workspace_query = &size;
  const Status status = call(context, args);
  EXPECT_TRUE(status.ok()) << status.message();
  return size;
}

TEST(Schedule, RefusesMorePairsThanAKernelCounts) {
  const TilePlan plan = TilePlan::grid({4, 4, 8}, {4, 4, 4}).value();  // one pair
  for (const int64_t heads : {int64_t{1} << 19, (int64_t{1} << 19) - 1}) {
    int64_t size = 0;
    Context context;
    context.workspace_query = &size;
    Carver workspace(context);
    const PlanTables plans("fine", workspace, &plan);
    const Schedule schedule(workspace, plans, {1 << 10, heads, 2, 2}, PairBy::kPosition);
    EXPECT_EQ(schedule.num_pairs(), 1);
    const Status status = schedule.status("fine");
    EXPECT_EQ(status.ok(), heads < 1 << 19);
    if (status.ok()) continue;
    EXPECT_EQ(status.code(), StatusCode::kUnsupported);
    EXPECT_EQ(status.message(),
              "[fine] q: expected fewer than 2^29 pairs of query blocks on the cuda backend, got "
              "536870912; split the batch");
  }
}

/// T47: what a call takes beside its tensors stays far below a mask of all pairs of tokens.
TEST(WorkspaceSize, T47_NoMaskOfAllPairs) {
  const TilePlan plan = TilePlan::grid({24, 50, 80}, {4, 4, 4}).value();
  const int64_t s = plan.seq_len();
  ASSERT_EQ(s, 96000);
  alignas(16) static uint16_t nothing[8];
  const Dims dims{1, 1, s, 128};
  AttentionArgs args;
  args.q = ConstTensor::bshd(nothing, DType::kBF16, dims);
  args.k = args.v = args.q;
  args.gate_coarse = Gate::one();
  args.q_plan = args.kv_plan = &plan;
  args.select = {.topk = plan.num_tiles() / 10};
  args.scale = 1.0F;
  args.out = Tensor::bshd(nothing, DType::kBF16, dims);
  const int64_t forward = workspace_of(attention_forward, args);
  EXPECT_GT(forward, plan.num_tiles() * plan.num_tiles() * 4);  // the scores
  EXPECT_LT(forward, s * s / 8 / 50);
  // Half of what the tokens of q, k, v and out take.
  EXPECT_LT(forward, s * 128 * 2 * 4 / 2);
}

/// Sizes that no integer holds are as large as they can be, not small or negative.
TEST(WorkspaceSize, OverflowSaturates) {
  const TilePlan plan = TilePlan::grid({1, 1, 1 << 16}, {1, 1, 1}).value();
  alignas(16) static uint16_t nothing[8];
  Dims dims{int64_t{1} << 20, 1 << 15, 1 << 16, 64};
  const ConstTensor q = [&] {
    ConstTensor t = ConstTensor::bhsd(nothing, DType::kF32, dims);
    t.stride = {0, 0, 64, 1};
    return t;
  }();
  CoarseArgs args{.q_pooled = q,
                  .k_pooled = q,
                  .v_pooled = q,
                  .kv_plan = &plan,
                  .scale = 1.0F,
                  .coarse_scores = {},
                  .coarse_out = Tensor::bhsd(nothing, DType::kF32, dims)};
  // 2^35 heads of 2^32 scores of 4 bytes: 2^69.
  EXPECT_GT(workspace_of(coarse, args), int64_t{1} << 62);
}

/// 48 KiB hold the bits of 64 lists, the lengths of the blocks and the state of the matching.
TEST(Schedule, MatchesPairsAsLongAsListsFit) {
  EXPECT_TRUE(can_match_pairs(1, 1));
  EXPECT_TRUE(can_match_pairs(5344, 5344));
  EXPECT_FALSE(can_match_pairs(5345, 5345));
  EXPECT_TRUE(can_match_pairs(4832, 2 * 4832));
  EXPECT_FALSE(can_match_pairs(4833, 2 * 4833));
}

}  // namespace
}  // namespace vsa::cuda
