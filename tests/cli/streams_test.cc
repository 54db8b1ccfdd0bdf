// What a lost stdout or stderr does to a run: results that nobody gets are exit code 4, messages
// that nobody gets change nothing.
#include <algorithm>

#include "tests/cli/attention_file.h"
#include "tests/cli/expect.h"
#include "tests/runtime_support/tiny_model.h"

namespace vsa::test {
namespace {

using Args = std::vector<std::string>;

/// The ways in which a stream can be lost.
enum class Lost { kClosed, kFull, kNoReader };
constexpr Lost kWays[] = {Lost::kClosed, Lost::kFull, Lost::kNoReader};

RunOptions lose_stderr(Lost way) {
  RunOptions options;
  options.closed_stderr_fd = way == Lost::kClosed;
  options.closed_stderr = way == Lost::kNoReader;
  if (way == Lost::kFull) options.stderr_path = "/dev/full";
  return options;
}

RunOptions lose_stdout(Lost way) {
  RunOptions options;
  options.closed_stdout_fd = way == Lost::kClosed;
  options.closed_stdout = way == Lost::kNoReader;
  if (way == Lost::kFull) options.stdout_path = "/dev/full";
  return options;
}

struct CliStreams : testing::Test {
  TemporaryDirectory dir;
  std::string model = dir.file("model");
  std::string in = dir.file("in.safetensors");
  std::string latents = dir.file("l.safetensors");

  CliStreams() {
    TinyModel().write(model);
    const Dims dims{.batch = 1, .num_heads = 1, .seq_len = 64, .head_dim = 16};
    write_tensors(in, {{"q", normal_tensor(DType::kF32, dims, 1)},
                       {"k", normal_tensor(DType::kF32, dims, 2)},
                       {"v", normal_tensor(DType::kF32, dims, 3)}});
    write_file(dir.file("cases.txt"), "one 2,4,4 2,4,4 1 1 16 1 f32\n");
  }

  /// A short run of every subcommand that prints a result.
  std::vector<Args> runs() {
    return {{"--help"},
            {"--version"},
            {"--version", "--json"},
            {"generate", "--help"},
            {"plan", "--grid", "8,8,8", "--topk", "1"},
            {"plan", "--grid", "8,8,8", "--topk", "1", "--json"},
            {"attend", in, "-o", dir.file("out.safetensors"), "--grid", "4,4,4", "--topk", "1",
             "--gate-coarse", "zero"},
            {"inspect", in, "--grid", "4,4,4", "--topk", "1"},
            {"bench", "--cases", dir.file("cases.txt"), "--repeats", "1"},
            {"bench", "--cases", dir.file("cases.txt"), "--list"},
            {"generate", "--model", model, "--prompt", "x", "--steps", "1", "--latents", latents,
             "-o", dir.file("a.y4m")},
            {"decode", latents, "-o", dir.file("b.y4m")},
            {"verify", model}};
  }
};

TEST_F(CliStreams, P21_ALostStderrChangesNoExitCode) {
  for (const Lost way : kWays) {
    for (const Args& args : runs()) {
      EXPECT_EQ(run_vsa(args, lose_stderr(way)).exit_code, 0) << args[0] << static_cast<int>(way);
    }
    // Errors and warnings, too, keep their codes.
    EXPECT_EQ(run_vsa({"plan", "--grid", "1"}, lose_stderr(way)).exit_code, 2);
    EXPECT_EQ(run_vsa({"frobnicate"}, lose_stderr(way)).exit_code, 2);
    EXPECT_EQ(run_vsa({"bench", "--backend", "hip"}, lose_stderr(way)).exit_code, 3);
    EXPECT_EQ(run_vsa({"verify", dir.file("none")}, lose_stderr(way)).exit_code, 4);
  }
}

TEST_F(CliStreams, P21_ABatchGoesOnWithoutStderr) {
  write_file(dir.file("list.json"), R"([{"prompt": "a"}, {"prompt": "b"}, {"prompt": "c"}])");
  for (const Lost way : kWays) {
    std::filesystem::remove_all(dir.file("out"));
    // Another tile than the model was trained with leads to a warning after the first video.
    const RunResult result =
        run_vsa({"generate", "--model", model, "--steps", "1", "--tile", "2,4,4", "--batch",
                 dir.file("list.json"), "-o", dir.file("out/{name}.y4m")},
                lose_stderr(way));
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_EQ(std::ranges::count(result.out, '\n'), 3);
    const std::string video = read_file(dir.file("out/00000.y4m"));
    EXPECT_TRUE(video.starts_with("YUV4MPEG2")) << "a message went into the video";
    EXPECT_TRUE(std::filesystem::exists(dir.file("out/00002.y4m")));
  }
}

TEST_F(CliStreams, P21_ProgressOnATerminalThatHangsUp) {
  RunOptions options;
  options.terminal_stderr = true;
  options.hang_up = true;
  const RunResult result = run_vsa(
      {"generate", "--model", model, "--prompt", "x", "--steps", "20", "-o", dir.file("a.y4m")},
      options);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(dir.file("a.y4m")));
}

TEST_F(CliStreams, P21_LostResultsAreExitCode4) {
  for (const Lost way : kWays) {
    for (const Args& args : runs()) {
      const RunResult result = run_vsa(args, lose_stdout(way));
      EXPECT_EQ(result.exit_code, 4) << args[0] << static_cast<int>(way);
      // A reader that went away is no news to whoever closed the pipe (`vsa plan | head -1`).
      EXPECT_EQ(result.err.find("error: standard output: cannot write: ") == std::string::npos,
                way == Lost::kNoReader)
          << args[0] << result.err;
    }
    // What was to be made is there all the same.
    EXPECT_TRUE(read_file(dir.file("a.y4m")).starts_with("YUV4MPEG2"));
    EXPECT_TRUE(read_file(dir.file("b.y4m")).starts_with("YUV4MPEG2"));
  }
}

}  // namespace
}  // namespace vsa::test
