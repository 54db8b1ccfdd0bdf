// What holds for every subcommand: version, help, exit codes, the form of errors, pure stdout.
#include <regex>

#include "tests/cli/expect.h"

namespace vsa::test {
namespace {

using testing::HasSubstr;

const std::vector<std::string> kCommands = {"plan",     "attend", "inspect", "bench",
                                            "generate", "decode", "verify"};

TEST(CliVersion, NamesEveryBackendAndWhyOthersAreAbsent) {
  const RunResult result = run_vsa({"--version"});
  expect_success(result);
  EXPECT_THAT(result.out, HasSubstr("vsa "));
  EXPECT_THAT(result.out, HasSubstr("compiler: "));
  EXPECT_TRUE(std::regex_search(result.out, std::regex("reference +yes +\\S+")));
  EXPECT_TRUE(std::regex_search(result.out, std::regex("cpu +yes +\\S+")));
  EXPECT_TRUE(std::regex_search(result.out, std::regex("hip +absent +not compiled in")));
}

TEST(CliVersion, Json) {
  const RunResult result = run_vsa({"--version", "--json"});
  expect_success(result);
  const auto json = result.json();
  EXPECT_TRUE(json.at("version").is_string());
  EXPECT_TRUE(json.at("commit").is_string());
  EXPECT_TRUE(json.at("compiler").is_string());
  std::vector<std::string> names;
  for (const auto& backend : json.at("backends")) {
    names.push_back(backend.at("name"));
    EXPECT_NE(backend.at("detail"), "") << names.back();
  }
  EXPECT_EQ(names, (std::vector<std::string>{"reference", "cpu", "cuda", "hip"}));
}

TEST(CliHelp, EveryCommandMatchesItsGoldenText) {
  // Made by `vsa COMMAND --help`, read by a person before it was committed.
  const std::filesystem::path golden = std::filesystem::path(VSA_SOURCE_DIR) / "tests/cli/help";
  const RunResult all = run_vsa({"--help"});
  expect_success(all);
  EXPECT_EQ(all.out, read_file(golden / "vsa.txt"));
  for (const std::string& command : kCommands) {
    const RunResult result = run_vsa({command, "--help"});
    expect_success(result);
    EXPECT_EQ(result.out, read_file(golden / (command + ".txt"))) << command;
  }
}

TEST(CliUsage, NoSubcommandUnknownSubcommandUnknownOption) {
  expect_failure(run_vsa({}), 2, "vsa", "expected a subcommand");
  expect_failure(run_vsa({"frobnicate"}), 2, "vsa", "frobnicate");
  for (const std::string& command : kCommands) {
    expect_failure(run_vsa({command, "--frobnicate"}), 2, "vsa " + command, "");
  }
}

TEST(CliUsage, AbsentBackendIsExitCode3AndNeverAnotherOne) {
  TemporaryDirectory dir;
  for (const auto& args : std::vector<std::vector<std::string>>{
           {"attend", "in", "-o", dir.file("out.safetensors"), "--grid", "4,4,4", "--topk", "1"},
           {"inspect", "in", "--grid", "4,4,4", "--topk", "1"},
           {"bench", "--cases", std::string(VSA_SOURCE_DIR) + "/bench/cases"},
           {"generate", "--prompt", "x", "-o", dir.file("x.mp4")}}) {
    auto with_backend = args;
    with_backend.insert(with_backend.end(), {"--backend", "hip"});
    expect_failure(run_vsa(with_backend), 3, "vsa " + args[0], "--backend hip: not compiled in");
    with_backend.back() = "gpu";
    expect_failure(run_vsa(with_backend), 2, "vsa " + args[0],
                   "--backend: expected reference, cpu, cuda or hip, got gpu");
  }
  EXPECT_TRUE(dir.files().empty());
}

TEST(CliUsage, WrongThreads) {
  for (const char* threads : {"-1", "1025", "99999", "two"}) {
    expect_failure(run_vsa({"bench", "--list", "--threads", threads}), 2, "vsa bench", "threads");
  }
}

TEST(CliOutput, FullDiskOnStdoutIsExitCode4) {
  RunOptions options;
  options.stdout_path = "/dev/full";
  for (const auto& args : std::vector<std::vector<std::string>>{
           {"--version"}, {"--help"}, {"plan", "--grid", "8,8,8", "--topk", "1"}}) {
    const RunResult result = run_vsa(args, options);
    EXPECT_EQ(result.exit_code, 4);
    EXPECT_THAT(result.err, HasSubstr("error: standard output: cannot write: No space left"));
  }
}

TEST(CliOutput, ReaderThatWentAwayIsNoNews) {
  RunOptions options;
  options.closed_stdout = true;
  const RunResult result = run_vsa({"plan", "--grid", "8,8,8", "--topk", "1"}, options);
  EXPECT_EQ(result.exit_code, 4);  // not killed by SIGPIPE
  EXPECT_EQ(result.err, "");
}

}  // namespace
}  // namespace vsa::test
