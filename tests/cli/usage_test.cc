// What holds for every subcommand: version, help, exit codes, the form of errors, pure stdout.
#include <fmt/format.h>

#include <regex>

#include "tests/cli/expect.h"

namespace vsa::test {
namespace {

using testing::HasSubstr;

const std::vector<std::string> kCommands = {"plan",   "attend", "inspect",    "bench", "generate",
                                            "decode", "verify", "completion", "help"};

TEST(CliVersion, NamesEveryBackendAndWhyOthersAreAbsent) {
  const RunResult result = run_vsa({"--version"});
  expect_success(result);
  EXPECT_THAT(result.out, HasSubstr("vsa "));
  EXPECT_THAT(result.out, HasSubstr("compiler: "));
  EXPECT_TRUE(std::regex_search(result.out, std::regex("reference +yes +\\S+")));
  EXPECT_TRUE(std::regex_search(result.out, std::regex("cpu +yes +\\S+")));
  EXPECT_TRUE(std::regex_search(result.out, std::regex("hip +absent +not compiled in")));
  for (const char* library : {"cuBLAS", "cuDNN", "NCCL"}) {
    const std::regex line(
        fmt::format("\n  {} +(yes +[0-9]+\\.[0-9]+\\.[0-9]+, .*\\.so|absent +expected )", library));
    EXPECT_TRUE(std::regex_search(result.out, line)) << library << ":\n" << result.out;
  }
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
    std::vector<std::string> libraries;
    for (const auto& library : backend.at("libraries")) {
      libraries.push_back(library.at("name"));
      EXPECT_TRUE(library.at("available").is_boolean()) << library;
      EXPECT_NE(library.at("detail"), "") << library;
    }
    const std::vector<std::string> of_cuda = {"cuBLAS", "cuDNN", "NCCL"};
    EXPECT_EQ(libraries, names.back() == "cuda" ? of_cuda : std::vector<std::string>{});
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

TEST(CliHelp, P34_EverySpellingPrintsHelpWithTwoExamples) {
  const std::string help = run_vsa({"--help"}).out;
  const size_t first = help.find("\n  vsa generate -p ");
  EXPECT_NE(first, std::string::npos);
  EXPECT_NE(help.find("\n  vsa plan ", first), std::string::npos);
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{}, {"help"}, {"-h"}, {"--help"}}) {
    const RunResult result = run_vsa(words);
    expect_success(result);
    EXPECT_EQ(result.out, help);
  }
  for (const std::string& command : kCommands) {
    const RunResult result = run_vsa({"help", command});
    expect_success(result);
    EXPECT_EQ(result.out, run_vsa({command, "--help"}).out) << command;
  }
  EXPECT_EQ(run_vsa({"-V"}).out, run_vsa({"--version"}).out);
}

TEST(CliHelp, P34_TheExamplesAreTaken) {
  // With --help behind them they are read, and nothing runs.
  for (const std::string& command : kCommands) {
    const std::string help = run_vsa({command, "--help"}).out;
    const size_t at = help.rfind("Example:\n  ");
    ASSERT_NE(at, std::string::npos) << command;
    if (command == "completion") continue;  // it is a command of the shell
    const std::string line = help.substr(at + 11, help.find('\n', at + 11) - at - 11);
    EXPECT_EQ(line.rfind("vsa " + command + " ", 0), 0U) << line;
    RunOptions options;
    options.shell = true;
    const RunResult result =
        run_vsa({"-c", "vsa() { \"$VSA\" \"$@\"; }\n" + line + " --help"}, options);
    expect_success(result);
    EXPECT_EQ(result.out, help) << line;
  }
}

TEST(CliUsage, P34_MessagesArePlainSentences) {
  struct Case {
    std::vector<std::string> words;
    std::string error;
  };
  for (const auto& [words, error] : std::vector<Case>{
           {{"frobnicate"},
            "vsa: error: unknown command frobnicate\nhint: vsa --help lists the commands\n"},
           {{"generates"}, "vsa: error: unknown command generates\nhint: `vsa generate` is one\n"},
           {{"version"},
            "vsa: error: unknown command version\nhint: vsa --help lists the commands\n"},
           {{"help", "pln"}, "vsa help: error: unknown command pln\nhint: `vsa help plan`\n"},
           {{"--verison"}, "vsa: error: unknown option --verison\nhint: --version is an option\n"},
           {{"--json"},
            "vsa: error: --json: expected --version beside it, or a command in front of it\n"
            "hint: `vsa plan --grid 21,30,52 --topk 78 --json`\n"},
           {{"--version", "plan", "--grid", "4,4,4", "--topk", "1"},
            "vsa plan: error: --version: expected it without a command, got plan\n"},
           {{"plan", "--gird", "4,4,4"},
            "vsa plan: error: unknown option --gird\nhint: --grid is an option\n"},
           {{"plan", "--frobnicate", "--grid", "4,4,4"},
            "vsa plan: error: unknown option --frobnicate\n"
            "hint: vsa plan --help lists the options\n"},
           {{"plan", "4,4,4"},
            "vsa plan: error: unexpected word 4,4,4\nhint: vsa plan --help lists the options\n"},
           {{"plan"},
            "vsa plan: error: expected --grid or --model, got none\n"
            "hint: for example `vsa plan --grid 21,30,52 --sparsity 0.875 --heads 12`\n"},
           {{"plan", "--grid"},
            "vsa plan: error: --grid: expected a value, got none\n"
            "hint: vsa plan --help lists the options\n"},
           {{"plan", "--grid="},
            "vsa plan: error: --grid: expected a value behind =, got nothing\n"},
           {{"plan", "--json=off", "--grid", "1,1,1"},
            "vsa plan: error: --json: expected no value, got off\n"},
           {{"plan", "--grid", "1,1,1", "--grid", "2,2,2"},
            "vsa plan: error: --grid: expected it once, got it 2 times\n"},
           {{"generate", "-o=a.mp4"},
            "vsa generate: error: -o: expected its value as a word of its own, got -o=a.mp4\n"
            "hint: -o a.mp4\n"},
           {{"generate", "-prompt", "a red circle", "-o", "a.mp4"},
            "vsa generate: error: unknown option -prompt\nhint: --prompt is an option\n"},
           {{"generate", "-p", "x", "-output=a.mp4"},
            "vsa generate: error: unknown option -output\nhint: --output is an option\n"},
           {{"plan", "-grid", "4,4,4", "-topk", "1"},
            "vsa plan: error: unknown option -grid\nhint: --grid is an option\n"},
           {{"-version"}, "vsa: error: unknown option -version\nhint: --version is an option\n"},
           {{"generate", "-p", "x", "-o", "a.avi"},
            "vsa generate: error: --output: expected a name ending in .mp4, .gif, .y4m or, for one "
            "file a frame, like frames/%04d.png, got a.avi\n"},
           {{"decode", "l.safetensors", "-o", "a"},
            "vsa decode: error: --output: expected a name ending in .mp4, .gif, .y4m or, for one "
            "file a frame, like frames/%04d.png, got a\n"},
           {{"generate", "-p", "x", "-o", "a.mp4", "--model", ""},
            "vsa generate: error: --model: expected a folder or the name of a model, got nothing\n"
            "hint: VSA_MODELS names folders of models\n"},
           {{"verify", ""},
            "vsa verify: error: model: expected a folder or the name of a model, got nothing\n"
            "hint: VSA_MODELS names folders of models\n"},
           {{"generate", "-o", "a.mp4", "a", "red", "circle"},
            "vsa generate: error: unexpected word a\n"
            "hint: a prompt of several words stands in quotes: -p \"a red circle\"\n"},
           {{"generate", "-p", "x", "--seed", "1e3", "-o", "a.mp4"},
            "vsa generate: error: --seed: expected a whole number from 0 to 9223372036854775807, "
            "or "
            "-1 for a random one, got 1e3\nhint: that is 1000 in digits\n"},
           {{"attend"},
            "vsa attend: error: expected input (safetensors with q, k and v of 4 axes) and --grid "
            "and --output, got none\n"
            "hint: for example `vsa attend in.safetensors -o out.safetensors --grid 8,16,16 --keep "
            "0.25`\n"},
           {{"generate", "-p", "x", "-o", "a.mp4", "--scale", "4"},
            "vsa generate: error: --scale: this command has no such option\n"
            "hint: --upscale N writes every pixel as N x N pixels\n"}}) {
    const RunResult result = run_vsa(words);
    EXPECT_EQ(result.err, error);
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(result.exit_code, 2) << error;
  }
}

TEST(CliUsage, P34_NoMessageShowsNamesOfCalls) {
  TemporaryDirectory dir;
  write_file(dir.file("junk.safetensors"), "junk");
  const std::vector<std::vector<std::string>> failing = {
      {"generate", "-p", "x", "-o", dir.file("a.avi")},
      {"generate", "-p", "x", "-o", "/dev/null/a.mp4"},
      {"generate", "-p", "x", "-o", dir.file("a.mp4"), "--model", dir.file("none")},
      {"generate", "-p", "x", "-o", dir.file("a.mp4"), "--model", dir.path().string()},
      {"decode", dir.file("junk.safetensors"), "-o", dir.file("a.mp4")},
      {"decode", dir.file("none"), "-o", dir.file("a.mp4")},
      {"verify", dir.file("none")},
      {"verify", dir.file("junk.safetensors")},
      {"attend", dir.file("none"), "-o", dir.file("o"), "--grid", "4,4,4", "--topk", "1"},
      {"plan", "--grid", "2000000000,2000000000,2000000000", "--topk", "1"}};
  for (const auto& words : failing) {
    const RunResult result = run_vsa(words);
    EXPECT_NE(result.exit_code, 0);
    EXPECT_FALSE(std::regex_search(result.err, std::regex("\\[[a-z0-9_]+\\] "))) << result.err;
  }
}

TEST(CliUsage, UnknownOptionsOfEveryCommand) {
  for (const std::string& command : kCommands) {
    expect_failure(run_vsa({command, "--frobnicate"}), 2, "vsa " + command,
                   "unknown option --frobnicate");
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
