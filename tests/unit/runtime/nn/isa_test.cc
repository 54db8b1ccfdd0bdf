// The instruction set that is chosen is the one that runs, in every loop and in oneDNN.
#include "runtime/nn/isa.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>

#include "runtime/nn/elementwise.h"
#include "runtime/nn/norm.h"
#include "runtime/nn/rope.h"
#include "runtime/nn/targets.h"
#include "runtime/nn/text_attention.h"
#include "tests/runtime_support/arrays.h"
#include "vsa/backend.h"
//
#include "hwy/highway.h"

namespace vsa::nn {
namespace {

int64_t wanted_target() {
  const std::string_view isa = cpu_isa().value();
  if (isa == "avx512") return HWY_AVX3;
  if (isa == "avx2") return HWY_AVX2;
  if (isa == "neon") return HWY_NEON;
  return HWY_STATIC_TARGET;
}

TEST(RuntimeIsa, EveryLoopRunsOnTheChosenOne) {
  constexpr int64_t kWidth = 64;
  std::vector<float> x = test::normal_f32(kWidth, 1);
  const std::vector<float> y = test::normal_f32(kWidth, 2);
  const KeyValue kv(y.data(), y.data(), 1, 1, kWidth);
  const float* const w = y.data();
  float* const p = x.data();
  const std::pair<const char*, std::function<void()>> loops[] = {
      {"layer_norm",
       [&] { layer_norm({.x = p, .rows = 1, .width = kWidth, .scale = w, .shift = w, .y = p}); }},
      {"rms_norm", [&] { rms_norm({.x = p, .rows = 1, .width = kWidth, .weight = w, .y = p}); }},
      {"gated_residual",
       [&] { gated_residual({.x = p, .y = w, .rows = 1, .width = kWidth, .gate = w}); }},
      {"add", [&] { add(x, y); }},
      {"multiply", [&] { multiply(x, y); }},
      {"all_finite", [&] { all_finite(x); }},
      {"rope",
       [&] {
         Rope({1, 1, 1}, kWidth).apply(p, 0, 1, 1);
       }},
      {"attend", [&] { attend({.q = p, .rows = 1, .kv = &kv, .out = p}); }},
  };
  for (const auto& [name, run] : loops) {
    record_target(0);
    run();
    EXPECT_EQ(last_target(), wanted_target()) << name;
  }
  const char* const forced = std::getenv("VSA_ISA");
  EXPECT_TRUE(forced == nullptr || cpu_isa().value() == forced);
}

TEST(RuntimeIsa, OneDnnIsHeldToIt) {
  ASSERT_TRUE(check_isa().ok());
  const std::map<std::string_view, dnnl::cpu_isa> held{{"avx512", dnnl::cpu_isa::avx512_core},
                                                       {"avx2", dnnl::cpu_isa::avx2},
                                                       {"baseline", dnnl::cpu_isa::sse41}};
  const auto found = held.find(cpu_isa().value());
  if (found == held.end()) GTEST_SKIP() << "oneDNN has no such limit for " << cpu_isa().value();
  EXPECT_EQ(dnnl::get_effective_cpu_isa(), found->second);
}

// In a process of its own, because a process chooses once.
TEST(RuntimeIsaDeathTest, ARefusedWishIsToldBeforeAnythingRuns) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto run = [] {
    setenv("VSA_ISA", "sse9", 1);
    const Status status = check_isa();
    std::fprintf(stderr, "%s", status.message().c_str());
    std::exit(status.code() == StatusCode::kUnsupported ? 7 : 1);
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(7), "VSA_ISA: expected one of .*baseline, got sse9");
}

}  // namespace
}  // namespace vsa::nn
