// Signals that ask `vsa` to stop: what it keeps, and the exit code.
#include <algorithm>
#include <csignal>
#include <filesystem>

#include "tests/cli/expect.h"
#include "tests/runtime_support/tiny_model.h"

namespace vsa::test {
namespace {

using Args = std::vector<std::string>;

struct CliSignals : testing::Test {
  TemporaryDirectory dir;
  std::string model = dir.file("model");

  CliSignals() { TinyModel().write(model); }

  Args files() const {
    Args all = dir.files();
    std::erase_if(all, [](const std::string& f) { return f.starts_with("model/"); });
    return all;
  }

  /// Sends the signals after a step of the sampler.
  static RunOptions in_mid_run(std::vector<int> signals) {
    RunOptions options;
    options.interrupt_when = [](const std::string& err) {
      return err.find("step ") != std::string::npos;
    };
    options.signals = std::move(signals);
    return options;
  }

  RunResult generate(const RunOptions& options, const Args& more = {}) const {
    Args args = {"generate", "--model", model, "--prompt", "a red ring", "-o", dir.file("a.y4m")};
    args.insert(args.end(), more.begin(), more.end());
    if (std::ranges::find(more, "--steps") == more.end()) {
      args.insert(args.end(), {"--steps", "1000"});
    }
    return run_vsa(args, options);
  }

  void expect_latents_kept(const RunResult& result, int exit_code) const {
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_THAT(result.err, testing::HasSubstr("hint: `vsa decode "));
    EXPECT_EQ(files(), Args{"a.latents.safetensors"});
  }
};

TEST_F(CliSignals, P30_EachKeepsTheLatentsAndHasItsExitCode) {
  for (const int signal : {SIGHUP, SIGINT, SIGTERM}) {
    expect_latents_kept(generate(in_mid_run({signal})), 128 + signal);
    std::filesystem::remove(dir.file("a.latents.safetensors"));
  }
}

TEST_F(CliSignals, P30_ASecondHangUpOrOneWithAnotherSignalStillKeepsThem) {
  // A terminal that closes sends SIGHUP twice: the kernel does, and the shell does.
  for (const std::vector<int>& signals :
       {std::vector{SIGHUP, SIGHUP}, {SIGTERM, SIGHUP}, {SIGHUP, SIGTERM}}) {
    expect_latents_kept(generate(in_mid_run(signals)), 128 + signals[0]);
    std::filesystem::remove(dir.file("a.latents.safetensors"));
  }
}

TEST_F(CliSignals, P30_ALostConnectionKeepsTheLatents) {
  RunOptions options = in_mid_run({});  // the kernel sends it
  options.terminal_stderr = true;
  options.controlling_terminal = true;
  options.hang_up = true;
  const RunResult result = generate(options);
  EXPECT_EQ(result.exit_code, 129) << result.err;
  EXPECT_EQ(files(), Args{"a.latents.safetensors"});
}

TEST_F(CliSignals, P30_AnInheritedIgnoreStays) {
  for (const int signal : {SIGHUP, SIGINT, SIGTERM}) {
    RunOptions options = in_mid_run({signal, signal, signal});
    options.ignored_signals = {signal};
    const RunResult result = generate(options, {"--steps", "40"});
    EXPECT_EQ(result.exit_code, 0) << signal << result.err;
  }
  EXPECT_EQ(files(), Args{"a.y4m"});
}

TEST_F(CliSignals, P30_InABatchAndInCompare) {
  write_file(dir.file("list.json"), R"([{"prompt": "a", "name": "x"}, {"prompt": "b"}])");
  const RunResult batch = run_vsa({"generate", "--model", model, "--steps", "1000", "--batch",
                                   dir.file("list.json"), "-o", dir.file("out/{name}.y4m")},
                                  in_mid_run({SIGHUP}));
  EXPECT_EQ(batch.exit_code, 129) << batch.err;
  EXPECT_TRUE(std::filesystem::exists(dir.file("out/x.latents.safetensors")));
  EXPECT_FALSE(std::filesystem::exists(dir.file("out/00001.latents.safetensors")));
  std::filesystem::remove_all(dir.file("out"));
  std::filesystem::remove(dir.file("list.json"));
  expect_latents_kept(generate(in_mid_run({SIGTERM}), {"--compare"}), 143);
}

TEST_F(CliSignals, P30_WhileDecoding) {
  expect_success(run_vsa({"generate", "--model", model, "--prompt", "x", "--steps", "1", "-o",
                          dir.file("a.y4m"), "--latents", dir.file("l")}));
  RunOptions options;
  options.signals = {SIGHUP};
  options.interrupt_when = [&](const std::string&) {
    return std::ranges::any_of(dir.files(), [](const auto& f) { return f.starts_with(".vsa-"); });
  };
  const RunResult result =
      run_vsa({"decode", dir.file("l"), "-o", dir.file("b.mp4"), "--upscale", "64"}, options);
  EXPECT_EQ(result.exit_code, 129) << result.err;
  EXPECT_EQ(files(), (Args{"a.y4m", "l"}));
}

}  // namespace
}  // namespace vsa::test
