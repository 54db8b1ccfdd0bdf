// Memory of the operator at 96,000 tokens, where a token mask would take 9 GB. The peak is that of
// this process, so the test runs in one of its own (ctest does that).
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tests/support/problem.h"

namespace vsa::test {
namespace {

/// A line of /proc/self/status, in bytes; -1 if there is none.
int64_t status_bytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t kib = 0;
    if (word == key + ":" && status >> kib) return kib * 1024;
  }
  return -1;
}

/// Makes the peak start again from what is resident now.
bool reset_peak() {
  std::ofstream clear("/proc/self/clear_refs");
  clear << "5" << std::flush;
  return clear.good();
}

TEST(Memory, T47_NothingGrowsWithTheSquareOfTheTokens) {
  const TilePlan plan = TilePlan::grid({24, 50, 80}, {4, 4, 4}).value();
  ASSERT_EQ(plan.num_valid_tokens(), 96000);
  const Heads heads{.num_heads = 2, .num_kv_heads = 2, .head_dim = 64};
  const Qkv in = make_qkv(DType::kF32, heads, plan, plan, 1);
  TestTensor out(DType::kF32, in.q.dims());
  const SelectOptions select{.topk = 8};
  LutBuffer lut({.num_heads = 2, .num_q_tiles = plan.num_tiles(), .pitch = 8});

  if (!reset_peak()) GTEST_SKIP() << "the peak of this process cannot be reset";
  const int64_t before = status_bytes("VmRSS");
  ASSERT_GT(before, 0);
  throw_if_error(attention_forward({.backend = BackendId::kCpu}, {.q = in.q,
                                                                  .k = in.k,
                                                                  .v = in.v,
                                                                  .gate_coarse = Gate::one(),
                                                                  .q_plan = &plan,
                                                                  .kv_plan = &plan,
                                                                  .select = select,
                                                                  .out = out,
                                                                  .lut_out = lut.view()}));
  const int64_t extra = status_bytes("VmHWM") - before;
  // attention.h promises one packed k/v head beyond inputs and outputs; padded tiles make it 4 %
  // longer than the sequence. 16 MiB: pooled tensors, thread stacks, the allocator.
  const int64_t packed_head = 2 * plan.padded_len() * 64 * 4;
  EXPECT_LE(extra, packed_head + packed_head / 10 + (16 << 20));
}

}  // namespace
}  // namespace vsa::test
