// What `vsa bench` makes of a contestant that its backend refuses: a row, beside those that ran.
#include "cli/bench/measure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/bench/peak_memory.h"
#include "cli/bench/report.h"
#include "cli/common/failure.h"

namespace vsa::cli {
namespace {

using testing::HasSubstr;

constexpr const char* kRefusal = "select: topk: expected less on this backend, got more";

struct Bench : testing::Test {
  BenchCase c{.name = "tiny", .grid = {2, 4, 4}, .tiling = {.tile = {2, 4, 4}}, .head_dim = 16};
  BenchProblem problem{c};
  Machine machine{.backend = "cpu", .detail = "", .cpu = "", .threads = 1};
  ProgressBar bar;
  InterruptScope interrupt;
  std::vector<Measured> all;
  int refused_runs = 0;

  void add(const std::string& stage, const std::string& baseline, const Status& answer) {
    Measured x;
    x.contestant.stage = stage;
    x.contestant.baseline = baseline;
    x.contestant.flops = 1e6;
    x.contestant.run = [this, answer] {
      refused_runs += answer.ok() ? 0 : 1;
      return answer;
    };
    all.push_back(x);
  }
  void measure() {
    check_all(c, all, bar, interrupt);
    time_all(c, 3, all, bar, interrupt);
  }
};

TEST_F(Bench, OneThatIsUnsupportedIsARowAndTheOthersRun) {
  add("gemm", "", {});
  add("dense", "", unsupported("[select] topk: expected less on this backend, got more"));
  add("select", "", unsupported("[select] topk: expected less on this backend, got more"));
  add("fine", "dense", {});
  measure();
  EXPECT_EQ(refused_runs, 2) << "asked once each";
  EXPECT_TRUE(all[0].ran() && all[3].ran());
  EXPECT_FALSE(all[1].ran() || all[2].ran());
  EXPECT_EQ(all[3].ms.size(), 3U);

  const auto refused = bench_json(problem, machine, all, all[1]);
  EXPECT_EQ(refused["unsupported"], kRefusal);
  EXPECT_EQ(refused["stage"], "dense");
  EXPECT_FALSE(refused.contains("median_ms"));
  const auto ran = bench_json(problem, machine, all, all[3]);
  EXPECT_FALSE(ran.contains("unsupported"));
  EXPECT_FALSE(ran.contains("speedup_vs_dense")) << "there is no dense to compare with";
  EXPECT_GT(ran["median_ms"].get<double>(), 0.0);

  const std::string text = bench_text(problem, machine, all);
  EXPECT_THAT(text, testing::ContainsRegex("\ndense +unsupported"));
  EXPECT_THAT(text, testing::ContainsRegex("\nfine +[0-9.]+ "));
  EXPECT_THAT(text, HasSubstr(std::string("\nunsupported (dense, select): ") + kRefusal + "\n"));
}

/// A first call's memory is measured, also where freed memory could serve it.
TEST_F(Bench, MemoryBeyondInputsAndOutputsIsThePeakOfTheCall) {
  if (!PeakMemory().extra_bytes()) GTEST_SKIP() << "/proc does not tell the peak of this process";
  const auto fill = [](size_t blocks) {
    std::vector<std::vector<char>> memory;
    for (size_t i = 0; i < blocks; ++i) memory.emplace_back(4096, 'x');
    return memory.back().back();
  };
  EXPECT_EQ(fill(8192), 'x');  // 32 MiB, freed
  add("fine", "", {});
  all[0].contestant.run = [&]() -> Status {
    EXPECT_EQ(fill(4096), 'x');
    return {};
  };
  all[0].contestant.check = [] { return CheckResult{}; };
  measure();
  ASSERT_TRUE(all[0].extra_bytes.has_value());
  EXPECT_GE(*all[0].extra_bytes, 15 << 20);  // the kernel counts pages in batches
  EXPECT_LE(*all[0].extra_bytes, 20 << 20);
  EXPECT_EQ(bench_json(problem, machine, all, all[0])["extra_bytes"], *all[0].extra_bytes);
}

/// Checks look at the first and the last kv head only.
TEST_F(Bench, AWrongElementInTheFirstOrTheLastHeadIsSeen) {
  BenchCase grouped = c;
  grouped.num_heads = 6;
  grouped.num_kv_heads = 3;
  grouped.topk = 1;
  BenchProblem p(grouped);
  const Context context{.backend = BackendId::kCpu};
  p.prepare(context, bench_stages());
  GemmBase gemm;
  const std::map<std::string, OwnedTensor*> outputs = {{"dense", &p.full_out},
                                                       {"tile", &p.tiled},
                                                       {"untile", &p.untiled},
                                                       {"pool", &p.v_pooled},
                                                       {"coarse", &p.coarse_out},
                                                       {"fine", &p.fine_out},
                                                       {"combine", &p.combined},
                                                       {"attention", &p.out},
                                                       {"dense_backward", &p.dk},
                                                       {"pool_backward", &p.pool_dq},
                                                       {"coarse_backward", &p.dv_pooled},
                                                       {"fine_backward", &p.dq},
                                                       {"combine_backward", &p.dgate},
                                                       {"attention_backward", &p.dv}};
  for (const auto& [stage, output] : outputs) {
    const Contestant x = contestants(p, gemm, context, {stage}).at(0);
    for (const bool last : {false, true}) {
      check(x.run());
      EXPECT_TRUE(x.check().ok()) << stage;
      const Tensor& t = output->view();
      const int64_t at = last ? (t.shape[1] - 1) * t.stride[1] : 0;
      static_cast<float*>(t.data)[at] += 1.0F;
      EXPECT_FALSE(x.check().ok()) << stage << (last ? ": last head" : ": first head");
      static_cast<float*>(t.data)[at] = std::numeric_limits<float>::quiet_NaN();
      EXPECT_FALSE(x.check().ok()) << stage << (last ? ": last head" : ": first head");
      check(x.run());
    }
  }
}

TEST_F(Bench, AnyOtherErrorEndsTheRun) {
  add("fine", "", {StatusCode::kDeviceError, "[fine] device: lost"});
  EXPECT_THROW(check_all(c, all, bar, interrupt), Failure);
}

/// What reads the outputs of a refused stage is refused for the same reason.
TEST_F(Bench, ARefusalReachesWhatReadsIt) {
  BenchCase wide = c;
  wide.dtype = DType::kF64;
  BenchProblem refused(wide);
  refused.prepare({.backend = BackendId::kCpu}, bench_stages());
  const std::string why = refused.refusal("pool");
  EXPECT_THAT(why, HasSubstr("pool: x: expected"));
  EXPECT_EQ(refused.refusal("fine"), why);
  EXPECT_EQ(refused.refusal("coarse_backward"), why);
  EXPECT_THAT(refused.refusal("attention_backward"), HasSubstr("attention_forward: "));

  problem.prepare({.backend = BackendId::kCpu}, bench_stages());
  for (const std::string& stage : bench_stages()) EXPECT_EQ(problem.refusal(stage), "");
}

}  // namespace
}  // namespace vsa::cli
