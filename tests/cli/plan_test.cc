// `vsa plan`: counts for known grids, and every wrong option.
#include "tests/cli/expect.h"

namespace vsa::test {
namespace {

nlohmann::json plan(std::vector<std::string> args) {
  args.insert(args.begin(), "plan");
  args.push_back("--json");
  const RunResult result = run_vsa(args);
  expect_success(result);
  return result.json();
}

TEST(CliPlan, T01_LongVideoIsCutRoundingUp) {
  const auto json = plan({"--grid", "32,30,52", "--topk", "1"});
  EXPECT_EQ(json["num_tiles"], 832);
  EXPECT_EQ(json["padded_tokens"], 53248);
  EXPECT_EQ(json["num_tokens"], 49920);
  EXPECT_EQ(json["padding_tokens"], 53248 - 49920);
}

TEST(CliPlan, T02_StandardGridIsNotAligned) {
  const auto json = plan({"--grid", "21,30,52", "--tile", "4,4,4", "--sparsity", "0.875"});
  EXPECT_EQ(json["num_tiles"], 624);
  EXPECT_EQ(json["tile_grid"], (std::vector<int>{6, 8, 13}));
  EXPECT_EQ(json["topk"], 78);
  // 5 x 7 x 13 full tiles; those at the far end of f, of h, and of both.
  EXPECT_EQ(json["tile_lens"],
            nlohmann::json::parse(R"([{"tokens": 8, "tiles": 13}, {"tokens": 16, "tiles": 91},
                                      {"tokens": 32, "tiles": 65}, {"tokens": 64, "tiles": 455}])"));
  EXPECT_EQ(json["num_partial_tiles"], 624 - 455);
  EXPECT_EQ(plan({"--grid", "21,30,52", "--tile", "4,8,8", "--topk", "1"})["num_tiles"], 168);
  EXPECT_EQ(plan({"--grid", "21x45x80", "--topk", "1"})["num_tiles"], 1440);
}

TEST(CliPlan, TilesAlongACurve) {
  for (const char* order : {"gilbert", "gilbert-frames"}) {
    const auto json = plan({"--grid", "21,30,52", "--order", order, "--sparsity", "0.875"});
    EXPECT_EQ(json["order"], order);
    EXPECT_EQ(json["num_tiles"], 512);
    EXPECT_EQ(json["num_partial_tiles"], 1);
    EXPECT_EQ(json["topk"], 64);
    EXPECT_EQ(
        plan({"--grid", "21,30,52", "--order", order, "--tile", "128", "--topk", "1"})["num_tiles"],
        256);
  }
  EXPECT_EQ(plan({"--grid", "21,30,52", "--topk", "1"})["order"], "raster");
}

TEST(CliPlan, TheTileThatFitsBest) {
  const auto json = plan({"--grid", "21,30,52", "--tile", "auto", "--topk", "1"});
  EXPECT_EQ(json["tile_shape"], (std::vector<int>{3, 5, 4}));
  EXPECT_EQ(json["num_tiles"], 546);
  EXPECT_EQ(json["padding_tokens"], 0);
  const auto large = plan({"--grid", "21,30,52", "--tile", "auto:128", "--topk", "1"});
  EXPECT_LE(large["num_tiles"], 330);
}

TEST(CliPlan, ATileThatDoesNotFitTheOrderIsAUsageError) {
  const auto refused = [](std::vector<std::string> args, const std::string& text) {
    args.insert(args.begin(), {"plan", "--grid", "21,30,52", "--topk", "1"});
    expect_failure(run_vsa(args), 2, "vsa plan", text);
  };
  refused({"--tile", "64"}, "--tile: expected edges F,H,W or auto in raster order, got 64");
  refused({"--order", "gilbert", "--tile", "4,4,4"},
          "--tile: expected 64 or 128 (tokens) with --order gilbert, got 4,4,4");
  refused({"--order", "gilbert", "--tile", "auto"}, "with --order gilbert, got auto");
  refused({"--order", "gilbert", "--tile", "100"}, "with --order gilbert, got 100");
  refused({"--order", "hilbert"}, "--order");
}

TEST(CliPlan, T03_T04_T05_TopkOfSparsity) {
  const auto topk = [](const char* grid, const char* sparsity) {
    return plan({"--grid", grid, "--sparsity", sparsity})["topk"].get<int>();
  };
  EXPECT_EQ(topk("5,32,32", "0.75"), 32);
  EXPECT_EQ(topk("5,32,32", "1.0"), 1);
  EXPECT_EQ(topk("5,32,32", "0"), 128);
  EXPECT_EQ(topk("4,4,80", "0.95"), 2);    // 20 tiles
  EXPECT_EQ(topk("4,4,40", "0.9"), 1);     // 10 tiles
  EXPECT_EQ(topk("21,30,52", "0.9"), 63);  // 624 tiles
}

TEST(CliPlan, CountsFlopsAndBytesOfAnAlignedGridExactly) {
  const auto json = plan({"--grid", "8,32,32", "--keep", "0.125", "--heads", "4", "--kv-heads", "2",
                          "--head-dim", "128", "--batch-size", "3", "--dtype", "f32"});
  const double tokens = 8192;
  EXPECT_EQ(json["topk"], 16);
  EXPECT_EQ(json["kept_share"], 0.125);
  const auto& flops = json["flops"];
  EXPECT_EQ(flops["dense"], 4.0 * 128 * 12 * tokens * tokens);
  EXPECT_EQ(flops["fine_expected"], 4.0 * 128 * 12 * tokens * tokens / 8);
  EXPECT_EQ(flops["fine_least"], flops["fine_expected"]);
  EXPECT_EQ(flops["fine_most"], flops["fine_expected"]);
  EXPECT_EQ(flops["coarse"], 4.0 * 128 * 12 * 128 * 128);
  EXPECT_EQ(json["bytes"]["q"], 3 * 4 * tokens * 128 * 4);
  EXPECT_EQ(json["bytes"]["k"], 3 * 2 * tokens * 128 * 4);
  EXPECT_EQ(json["bytes"]["lut"], 12.0 * 128 * (16 + 1) * 4);
}

TEST(CliPlan, BoundsOfAPartialGridEncloseTheExpectation) {
  const auto flops = plan({"--grid", "5,6,7", "--topk", "3"})["flops"];
  // 2 x 2 x 2 tiles of 64, 48, 32, 24, 16, 12, 8 and 6 tokens in some order, 210 tokens.
  EXPECT_EQ(flops["fine_least"], 4.0 * 128 * 210 * (6 + 8 + 12));
  EXPECT_EQ(flops["fine_most"], 4.0 * 128 * 210 * (64 + 48 + 32));
  EXPECT_DOUBLE_EQ(flops["fine_expected"], 4.0 * 128 * 210 * 3 * 210 / 8);
}

TEST(CliPlan, TableForPeople) {
  const RunResult result = run_vsa({"plan", "--grid", "21,30,52", "--sparsity", "0.875"});
  expect_success(result);
  EXPECT_THAT(result.out, testing::HasSubstr("6 x 8 x 13 = 624, 169 of them partial"));
  EXPECT_THAT(result.out, testing::HasSubstr("78 of 624 tiles, 12.50 % kept"));
}

TEST(CliPlan, P23_LeadingZerosAreDecimal) {
  const auto json = run_vsa({"plan", "--grid", "010,016,08", "--heads", "010", "--head-dim", "064",
                             "--topk", "09", "--json"})
                        .json();
  EXPECT_EQ(json["grid"], (std::vector<int>{10, 16, 8}));
  EXPECT_EQ(json["num_heads"], 10);
  EXPECT_EQ(json["head_dim"], 64);
  EXPECT_EQ(json["topk"], 9);
}

TEST(CliPlan, WrongOptions) {
  const auto fails = [](std::vector<std::string> args, const std::string& text) {
    args.insert(args.begin(), "plan");
    expect_failure(run_vsa(args), 2, "vsa plan", text);
  };
  const std::string grid = "--grid: expected F,H,W with every number >= 1, got ";
  for (const char* wrong :
       {"21,30", "0,1,1", "1,2,3,4", "a,b,c", "1,,2", "4,4,-4", "99999999999,1,1", "1.5,2,2"}) {
    fails({"--grid", wrong, "--topk", "1"}, grid + wrong);
  }
  fails({"--topk", "1"}, "expected --grid or --model, got none");
  fails({"--grid", "4,4,4", "--topk", "1", "--tile", "4,4"}, "--tile: expected");
  fails({"--grid", "4,4,4", "--topk", "1", "--tile", "8,8,8"}, "--tile: expected at most 256");
  fails({"--grid", "4,4,4", "--topk", "1", "--tile", "2000000000,2000000000,2000000000"},
        "--tile: expected at most 256");
  fails({"--grid", "2000000000,2000000000,2000000000", "--topk", "1"}, "grid: expected");
  for (const char* wrong : {"nan", "inf", "-inf", "90", "1.01", "-1"}) {
    fails({"--grid", "4,4,4", "--sparsity", wrong},
          "--sparsity: expected a number from 0 to 1, got ");
    fails({"--grid", "4,4,4", "--keep", wrong},
          "--keep: expected a number above 0 and at most 1, got ");
  }
  fails({"--grid", "4,4,4", "--sparsity", "half"}, "--sparsity");
  fails({"--grid", "4,4,4", "--keep", "0"}, "--keep");
  fails({"--grid", "4,4,4", "--keep", "1.5"}, "--keep");
  fails({"--grid", "8,8,8", "--topk", "0"}, "--topk: expected a whole number of at least 1, got 0");
  fails({"--grid", "8,8,8", "--topk", "-1"}, "got -1");
  fails({"--grid", "8,8,8", "--topk", "9"}, "got 9");
  fails({"--grid", "8,8,8", "--topk", "1", "--sparsity", "0.5"}, "exactly one of");
  fails({"--grid", "8,8,8"}, "exactly one of");
  for (const char* option : {"--heads", "--head-dim", "--batch-size", "--kv-heads"}) {
    fails({"--grid", "8,8,8", "--topk", "1", option, "-1"}, option);
    fails({"--grid", "8,8,8", "--topk", "1", option, "99999999999"}, option);
  }
  fails({"--grid", "8,8,8", "--topk", "1", "--heads", "4", "--kv-heads", "3"}, "--kv-heads");
  fails({"--grid", "8,8,8", "--topk", "1", "--dtype", "int8"}, "--dtype");
}

}  // namespace
}  // namespace vsa::test
