// The choice of the instruction set, and that the chosen one is the one that runs.
#include "src/cpu/support/isa.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "src/cpu/support/targets.h"
#include "tests/support/run.h"
//
#include "hwy/highway.h"

namespace vsa::test {
namespace {

using cpu::choose_isa;
using cpu::isa;
using cpu::last_target;
using testing::HasSubstr;

/// Forward and backward of the smallest fine stage.
void run_fine_kernels() {
  const TilePlan plan = TilePlan::grid({2, 2, 2}, {2, 2, 2}).value();
  const TestTensor x = normal_tensor(DType::kF32, {.seq_len = 8, .head_dim = 8}, 1);
  const Qkv in{.q = x, .k = x, .v = x, .q_plan = plan, .kv_plan = plan};
  const LutBuffer lut = full_lut(1, 1, 1, 1);
  const Context context{.backend = BackendId::kCpu};
  const FineResult forward = run_fine(context, in, lut.view());
  EXPECT_EQ(last_target(), isa().target);
  cpu::record_target(0);
  run_fine_backward(context, in, lut.view(), forward, x);
}

int64_t target_of(const std::string& name) {
  if (name == "avx512") return HWY_AVX3;
  if (name == "avx2") return HWY_AVX2;
  if (name == "neon") return HWY_NEON;
  return HWY_STATIC_TARGET;
}

TEST(Isa, TheForcedOneRuns) {
  const char* wanted = std::getenv("VSA_ISA");
  if (wanted != nullptr) {
    EXPECT_EQ(isa().target, target_of(wanted));
  }
  cpu::record_target(0);
  run_fine_kernels();
  EXPECT_EQ(last_target(), isa().target);
}

TEST(Isa, TheLibraryTellsWhichOneRuns) {
  run_fine_kernels();
  EXPECT_EQ(target_of(std::string(cpu_isa().value())), last_target());
  // "AVX-512 (AVX3)", "AVX2", ...: the words for people mean the same one.
  const std::string detail = backends()[static_cast<size_t>(BackendId::kCpu)].detail;
  EXPECT_EQ(detail, choose_isa(std::string(cpu_isa().value())).detail);
}

TEST(Isa, BaselineIsAlwaysThere) {
  EXPECT_EQ(choose_isa("baseline").target, HWY_STATIC_TARGET);
  EXPECT_THAT(choose_isa("baseline").detail, HasSubstr("baseline"));
}

TEST(Isa, WithoutAWishTheBestThatIsThere) {
  for (const char* name : {"avx512", "avx2", "neon", "baseline"}) {
    const int64_t target = choose_isa(name).target;
    if (target == 0) continue;
    EXPECT_EQ(choose_isa("").target, target);
    return;
  }
  FAIL() << "no instruction set at all";
}

TEST(Isa, UnknownNamesAndThoseOfOtherMachinesGiveNone) {
  for (const char* name : {"sse9", "AVX2", "avx2 ", "neon avx2"}) {
    const cpu::IsaChoice choice = choose_isa(name);
    EXPECT_EQ(choice.target, 0) << name;
    EXPECT_THAT(choice.detail, HasSubstr("VSA_ISA"));
    EXPECT_THAT(choice.detail, HasSubstr("baseline"));
    EXPECT_THAT(choice.detail, HasSubstr(name));
  }
  // No machine is both.
  EXPECT_TRUE(choose_isa("avx2").target == 0 || choose_isa("neon").target == 0);
}

// In a process of its own, because a process chooses once.
TEST(IsaDeathTest, ARefusedWishMakesTheBackendUnavailable) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto run = [] {
    setenv("VSA_ISA", "sse9", 1);
    float memory[8] = {};
    const TilePlan plan = TilePlan::grid({1, 1, 1}, {1, 1, 1}).value();
    const Dims dims{.head_dim = 8};
    const Status status =
        pool({.backend = BackendId::kCpu}, {.x = ConstTensor::bshd(memory, DType::kF32, dims),
                                            .plan = &plan,
                                            .pooled = Tensor::bshd(memory, DType::kF32, dims)});
    std::fprintf(stderr, "%s", status.message().c_str());
    const bool refused = cpu_isa().status().code() == StatusCode::kUnsupported;
    std::exit(refused && status.code() == StatusCode::kUnsupported ? 7 : 1);
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(7), "VSA_ISA: expected one of .*baseline, got sse9");
}

}  // namespace
}  // namespace vsa::test
