// What `vsa bench` makes of a contestant that its backend refuses: a row, beside those that ran.
#include "cli/bench/measure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/bench/report.h"
#include "cli/common/failure.h"

namespace vsa::cli {
namespace {

using testing::HasSubstr;

constexpr const char* kRefusal = "[select] topk: expected less on this backend, got more";

struct Bench : testing::Test {
  BenchCase c{.name = "tiny", .grid = {2, 4, 4}, .tile = {2, 4, 4}, .head_dim = 16};
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
  add("dense", "", unsupported(kRefusal));
  add("select", "", unsupported(kRefusal));
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

TEST_F(Bench, AnyOtherErrorEndsTheRun) {
  add("fine", "", {StatusCode::kDeviceError, "[fine] device: lost"});
  EXPECT_THROW(check_all(c, all, bar, interrupt), Failure);
}

/// What reads the outputs of a refused stage is refused for the same reason.
TEST_F(Bench, ARefusalReachesWhatReadsIt) {
  BenchCase wide = c;
  wide.dtype = DType::kF64;
  BenchProblem refused(wide);
  refused.prepare({.backend = BackendId::kCpu}, true);
  const std::string why = refused.refusal("pool", "");
  EXPECT_THAT(why, HasSubstr("[pool] x: expected"));
  EXPECT_EQ(refused.refusal("fine", "select"), why);
  EXPECT_EQ(refused.refusal("coarse_backward", "combine_backward"), why);
  EXPECT_THAT(refused.refusal("attention_backward", "attention"), HasSubstr("[attention_forward]"));

  problem.prepare({.backend = BackendId::kCpu}, true);
  for (const std::string& stage : bench_stages()) EXPECT_EQ(problem.refusal(stage, ""), "");
}

}  // namespace
}  // namespace vsa::cli
