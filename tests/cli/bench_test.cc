// `vsa bench`: every contestant is checked and reported; wrong case files. No time is judged.
#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>

#include "tests/cli/expect.h"
#include "vsa/backend.h"

namespace vsa::test {
namespace {

using Args = std::vector<std::string>;

const Args kStages = {"dense",
                      "tile",
                      "untile",
                      "norm_rope_pool",
                      "residual_norm",
                      "pool",
                      "coarse",
                      "select",
                      "fine",
                      "combine",
                      "attention",
                      "dense_backward",
                      "pool_backward",
                      "coarse_backward",
                      "fine_backward",
                      "combine_backward",
                      "attention_backward"};

struct CliBench : testing::Test {
  TemporaryDirectory dir;
  std::string cases = dir.file("cases.txt");

  RunResult bench(const Args& more) const {
    Args args = {"bench", "--cases", cases};
    if (std::ranges::find(more, "--repeats") == more.end()) {
      args.insert(args.end(), {"--repeats", "2"});
    }
    args.insert(args.end(), more.begin(), more.end());
    return run_vsa(args);
  }
};

TEST_F(CliBench, CasesAlongACurveAndInTileOrder) {
  write_file(cases,
             "good 3,5,13 2,4,8 4 2 32 0.5 f32\n"
             "large 3,5,13 4,8,8 4 2 32 0.5 f32\n");
  const Args stages = {"--stage", "fine", "--stage", "attention", "--stage", "tile"};
  const auto lines_of = [&](Args args) {
    args.insert(args.end(), stages.begin(), stages.end());
    args.insert(args.end(), {"--case", "good", "--order", "gilbert", "--json"});
    const RunResult result = bench(args);
    expect_success(result);
    std::vector<nlohmann::json> all;
    std::istringstream lines(result.out);
    for (std::string line; std::getline(lines, line);) all.push_back(nlohmann::json::parse(line));
    return all;
  };
  for (const bool in_tile_order : {false, true}) {
    const auto all = lines_of(in_tile_order ? Args{"--in-tile-order"} : Args{});
    ASSERT_GE(all.size(), 3U);
    for (const auto& json : all) {
      EXPECT_EQ(json["order"], "gilbert");
      EXPECT_EQ(json["tensors_in_tile_order"], in_tile_order);
      EXPECT_EQ(json["num_tiles"], 4) << "195 tokens";
      EXPECT_EQ(json["topk"], 2) << "half of them";
    }
  }
  expect_failure(bench({"--order", "gilbert"}), 2, "vsa bench",
                 "--order gilbert: expected cases that it can cut, got large: ");
}

TEST_F(CliBench, JsonLinesOfEveryStageChecked) {
  // Partial tiles, grouped heads, and every dtype of the backend.
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    write_file(cases, std::string("tiny 3,5,6 2,4,4 4 2 32 0.5 ") + dtype + "\n");
    Args args = {"--json"};
    if (std::string(dtype) != "f32") {  // the GEMM is f32 whatever the case, and by far the longest
      for (const std::string& stage : kStages) args.insert(args.end(), {"--stage", stage});
    }
    const RunResult result = bench(args);
    expect_success(result);
    std::set<std::string> stages;
    std::istringstream lines(result.out);
    for (std::string line; std::getline(lines, line);) {
      const auto json = nlohmann::json::parse(line);
      const std::string stage = json["stage"];
      EXPECT_TRUE(stages.insert(stage).second) << stage;
      EXPECT_EQ(json["case"], "tiny");
      EXPECT_EQ(json["dtype"], dtype);
      if (stage == "norm_rope_pool" && !implements(BackendId::kCpu, stage)) {
        EXPECT_TRUE(json.contains("unsupported"));
        continue;
      }
      EXPECT_EQ(json["repeats"], 2);
      EXPECT_GT(json["median_ms"].get<double>(), 0.0) << stage;
      EXPECT_GE(json["iqr_ms"].get<double>(), 0.0) << stage;
      for (const char* key : {"cpu", "backend_detail", "commit", "compiler", "threads"}) {
        EXPECT_TRUE(json.contains(key)) << stage << " " << key;
      }
      if (stage == "gemm") continue;
      EXPECT_GT(json["gb_per_s"].get<double>(), 0.0) << stage;
      EXPECT_GT(json["bytes"].get<int64_t>(), 0) << stage;
      EXPECT_GE(json["extra_bytes"].get<int64_t>(), 0) << stage;
      EXPECT_LE(json["check"]["error"].get<double>(), json["check"]["tolerance"].get<double>());
      EXPECT_GT(json["check"]["tiles_checked"].get<int>(), 0);
    }
    std::set<std::string> want(kStages.begin(), kStages.end());
    if (std::string(dtype) == "f32") want.insert("gemm");
    EXPECT_EQ(stages, want);
  }
}

TEST_F(CliBench, ChoosesCasesAndStages) {
  write_file(
      cases,
      "# comment\none 2,4,4 2,4,4 1 1 16 1 f32  # trailing\n\ntwo 2,4,8 2,4,4 1 1 16 2 f32\n");
  EXPECT_EQ(bench({"--list"}).out, "one\ntwo\n");
  const RunResult result = bench({"--json", "--case", "two", "--stage", "fine"});
  expect_success(result);
  EXPECT_EQ(result.json()["case"], "two");
  EXPECT_EQ(result.json()["stage"], "fine");
  EXPECT_EQ(result.json()["topk"], 2);
  const RunResult table = bench({"--case", "one", "--stage", "fine", "--stage", "dense"});
  expect_success(table);
  EXPECT_THAT(table.out, testing::HasSubstr("median ms"));
}

/// A case that the backend cannot take, here for its dtype, costs only its own rows.
TEST_F(CliBench, WhatABackendCannotTakeIsARow) {
  write_file(cases, "wide 2,4,4 2,4,4 1 1 16 1 f64\nok 2,4,4 2,4,4 1 1 16 1 f32\n");
  const Args stages = {"--stage", "dense", "--stage", "fine", "--stage", "fine_backward"};
  Args args = stages;
  args.emplace_back("--json");
  const RunResult result = bench(args);
  expect_success(result);
  std::vector<nlohmann::json> rows;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) rows.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(rows.size(), 6U);
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i]["case"], i < 3 ? "wide" : "ok");
    EXPECT_EQ(rows[i].contains("unsupported"), i < 3) << rows[i];
    EXPECT_EQ(rows[i].contains("median_ms"), i >= 3) << rows[i];
  }
  EXPECT_THAT(rows[0]["unsupported"].get<std::string>(),
              testing::HasSubstr("fine: q: expected f32|bf16|f16 [B,H,32,D] on the cpu backend"));
  EXPECT_THAT(rows[1]["unsupported"].get<std::string>(), testing::HasSubstr("pool: x: expected"));

  const RunResult table = bench(stages);
  expect_success(table);
  EXPECT_THAT(table.out, testing::HasSubstr("\nunsupported (fine, fine_backward): pool: x: "));
  EXPECT_THAT(table.out, testing::ContainsRegex("ok: [^\n]*\n[^\n]*\n[^\n]*\ndense +[0-9]"));
}

/// Not an answer of 0 times: the rows, then what to do.
TEST_F(CliBench, IfNothingCanRunItIsExitCode3) {
  write_file(cases, "wide 2,4,4 2,4,4 1 1 16 1 f64\n");
  const RunResult result = bench({"--stage", "fine", "--json"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.json()["unsupported"].get<std::string>(), testing::HasSubstr("pool: x"));
  EXPECT_THAT(result.err, testing::StartsWith("vsa bench: error: nothing could run: pool: x: "));
  EXPECT_THAT(result.err, testing::HasSubstr("f64"));
  EXPECT_THAT(result.err, testing::HasSubstr("\nhint: --dtype takes the cases in another dtype"));
  EXPECT_EQ(std::ranges::count(result.err, '\n'), 2);
  expect_success(bench({"--stage", "fine", "--dtype", "bf16"}));
}

TEST_F(CliBench, TheShippedCasesCanBeRead) {
  const RunResult result =
      run_vsa({"bench", "--list", "--cases", std::string(VSA_SOURCE_DIR) + "/bench/cases"});
  expect_success(result);
  EXPECT_THAT(result.out, testing::HasSubstr("aligned-8k\n"));
}

// The gradient of a softmax over one tile is 0, which no relative error can be held to.
TEST_F(CliBench, ACaseOfOneTile) {
  write_file(cases, "one 2,4,4 2,4,4 1 1 16 1 f32\n");
  expect_success(run_vsa({"bench", "--cases", cases, "--repeats", "1"}));
}

TEST_F(CliBench, R29_CtrlCKeepsWhatWasPrinted) {
  write_file(cases, "one 2,4,4 2,4,4 1 1 16 1 f32\n");
  RunOptions options;
  const auto started = std::chrono::steady_clock::now();
  options.interrupt_when = [&](const std::string&) {
    return std::chrono::steady_clock::now() - started > std::chrono::seconds(1);
  };
  const RunResult result = run_vsa({"bench", "--cases", cases, "--repeats", "1000000"}, options);
  EXPECT_EQ(result.exit_code, 130);
  EXPECT_EQ(result.err, "vsa bench: error: interrupted\n");
}

TEST_F(CliBench, WrongCasesAndOptions) {
  const auto fails = [&](int code, const std::string& file, const std::string& text,
                         const Args& more = {}) {
    write_file(cases, file);
    expect_failure(bench(more), code, "vsa bench", text);
  };
  const std::string good = "one 2,4,4 2,4,4 1 1 16 1 f32\n";
  fails(4, "", "holds no case");
  fails(4, "\none 2,4,4\n", "cases.txt:2: expected name grid tile");
  fails(4, "one 2,4 2,4,4 1 1 16 1 f32", "cases.txt:1: grid: expected F,H,W");
  fails(4, "one 2,4,4 9,9,9 1 1 16 1 f32", "tile: expected at most 256");
  fails(4, "one 2,4,4 2,4,4 3 2 16 1 f32", "kv_heads: expected a divisor");
  fails(4, "one 2,4,4 2,4,4 1 1 16 2 f32", "--topk: expected 1 to 1");
  fails(4, "one 2,4,4 2,4,4 1 1 16 0.x f32", "keep: expected a share");
  fails(4, "one 2,4,4 2,4,4 1 1 16 1 i8", "dtype: expected");
  fails(4, good + good, "two cases named one");
  fails(2, good, "--case: no case two", {"--case", "two"});
  fails(2, good, "--stage: expected one of gemm, dense,", {"--stage", "sort"});
  fails(2, good, "--repeats: expected a whole number of at least 1, got 0", {"--repeats", "0"});
  std::filesystem::remove(cases);
  expect_failure(bench({}), 4, "vsa bench", "cannot be read");
}

}  // namespace
}  // namespace vsa::test
