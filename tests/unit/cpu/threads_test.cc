// The same bits for any number of threads, forward and backward.
#include <gtest/gtest.h>

#include "tests/support/compare.h"
#include "tests/support/run.h"

namespace vsa::test {
namespace {

struct Outcome {
  AttentionResult forward;
  AttentionGradients backward;
};

/// GQA, partial tiles and several heads: more work items than threads, and fewer.
Outcome run_with(int num_threads, const Grid& grid) {
  const TilePlan plan = TilePlan::grid(grid, {4, 4, 4}).value();
  const auto tensor = [&](int64_t num_heads, uint64_t seed) {
    return normal_tensor(
        DType::kF32,
        {.batch = 2, .num_heads = num_heads, .seq_len = plan.seq_len(), .head_dim = 40}, seed);
  };
  const Qkv in{
      .q = tensor(4, 1), .k = tensor(2, 2), .v = tensor(2, 3), .q_plan = plan, .kv_plan = plan};
  const TestTensor gate = tensor(4, 4);
  AttentionOptions options;
  options.gate_coarse = Gate::tensor(gate);
  options.select.topk = std::min<int64_t>(3, plan.num_tiles());
  const Context context{.backend = BackendId::kCpu, .num_threads = num_threads};
  Outcome outcome{.forward = run_attention(context, in, options), .backward = {}};
  outcome.backward = run_attention_backward(context, in, options, outcome.forward, tensor(4, 5));
  return outcome;
}

TEST(Threads, AnyNumberGivesTheSameBits) {
  for (const Grid& grid : {Grid{5, 6, 7}, Grid{2, 2, 2}}) {
    const Outcome one = run_with(1, grid);
    for (const int num_threads : {2, 3, 8, 0}) {
      const Outcome many = run_with(num_threads, grid);
      EXPECT_TRUE(same_bits(many.forward.out, one.forward.out));
      EXPECT_TRUE(same_bits(many.forward.lse, one.forward.lse));
      EXPECT_TRUE(same_bits(many.forward.fine_out, one.forward.fine_out));
      EXPECT_TRUE(same_lut(many.forward.lut.view(), one.forward.lut.view()));
      EXPECT_TRUE(same_bits(many.backward.dq, one.backward.dq));
      EXPECT_TRUE(same_bits(many.backward.dk, one.backward.dk));
      EXPECT_TRUE(same_bits(many.backward.dv, one.backward.dv));
      EXPECT_TRUE(same_bits(many.backward.dgate_coarse, one.backward.dgate_coarse));
      EXPECT_TRUE(same_bits(many.backward.dgate_fine, one.backward.dgate_fine));
    }
  }
}

}  // namespace
}  // namespace vsa::test
