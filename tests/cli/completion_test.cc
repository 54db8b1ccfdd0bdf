// `vsa completion`: its scripts, run by the shells that they are for.
#include <algorithm>
#include <sstream>

#include "tests/cli/expect.h"

namespace vsa::test {
namespace {

using Words = std::vector<std::string>;
using testing::Contains;
using testing::Not;

bool is_there(const char* program) {
  return std::system((std::string("command -v ") + program + " >/dev/null").c_str()) == 0;
}

Words lines_of(const std::string& text) {
  std::istringstream stream(text);
  Words lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

struct CliCompletion : testing::Test {
  TemporaryDirectory dir;

  CliCompletion() {
    std::filesystem::create_directory(dir.file("folder"));
    write_file(dir.file("file.txt"), "");
  }

  /// What bash offers for the last of the words.
  Words bash(const Words& words) const {
    std::string script = "source <(\"$VSA\" completion bash)\nCOMP_WORDS=(vsa";
    for (const std::string& word : words) script += " '" + word + "'";
    script += ")\nCOMP_CWORD=" + std::to_string(words.size()) +
              "\n_vsa\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n";
    RunOptions options;
    options.shell = true;
    options.directory = dir.path();
    const RunResult result = run_vsa({"--norc", "-c", script}, options);
    EXPECT_EQ(result.err, "");
    return lines_of(result.out);
  }
};

TEST_F(CliCompletion, BashCompletesCommandsOptionsAndValues) {
  EXPECT_EQ(bash({"gen"}), Words{"generate"});
  EXPECT_THAT(bash({""}), Contains("plan"));
  EXPECT_EQ(bash({"--ver"}), Words{"--version"});
  EXPECT_EQ(bash({"generate", "--neg"}), Words{"--negative-prompt"});
  EXPECT_EQ(bash({"plan", "--gr"}), Words{"--grid"});
  EXPECT_EQ(bash({"generate", "--attention", ""}), (Words{"vsa", "dense"}));
  EXPECT_EQ(bash({"generate", "--attention", "=", "d"}), Words{"dense"});
  EXPECT_EQ(bash({"attend", "in", "--backend", "cu"}), Words{"cuda"});
  EXPECT_EQ(bash({"generate", "--model", "f"}), Words{"folder"});
  EXPECT_THAT(bash({"generate", "-o", "f"}), testing::UnorderedElementsAre("folder", "file.txt"));
  EXPECT_EQ(bash({"verify", "fi"}), Words{"file.txt"});
  EXPECT_EQ(bash({"attend", "--lse", "fi"}), Words{"file.txt"});
  EXPECT_EQ(bash({"completion", "z"}), Words{"zsh"});
  EXPECT_EQ(bash({"help", "dec"}), Words{"decode"});
  EXPECT_EQ(bash({"generate", "--prompt", "f"}), Words{""});        // nothing to offer
  EXPECT_THAT(bash({"generate", "--"}), Not(Contains("--scale")));  // a former name
}

TEST_F(CliCompletion, ZshCompletesCommandsOptionsAndValues) {
  if (!is_there("zsh")) GTEST_SKIP() << "zsh is not installed";
  const std::string script = std::string(VSA_SOURCE_DIR) + "/tests/cli/complete.zsh";
  const auto zsh = [&](const std::string& line) {
    RunOptions options;
    options.shell = true;
    return run_vsa({"-c", "exec zsh -f \"$0\" \"$1\" \"$2\"", script, dir.path().string(), line},
                   options)
        .out;
  };
  EXPECT_EQ(zsh("vsa gener"), "vsa generate \n");
  EXPECT_EQ(zsh("vsa --ver"), "vsa --version \n");
  EXPECT_EQ(zsh("vsa generate --neg"), "vsa generate --negative-prompt=\n");
  EXPECT_EQ(zsh("vsa generate --attention de"), "vsa generate --attention dense \n");
  EXPECT_EQ(zsh("vsa attend in --backend cu"), "vsa attend in --backend cuda \n");
  EXPECT_EQ(zsh("vsa generate --model fol"), "vsa generate --model folder/\n");
  EXPECT_EQ(zsh("vsa verify fi"), "vsa verify file.txt \n");
  EXPECT_EQ(zsh("vsa completion z"), "vsa completion zsh \n");
}

TEST_F(CliCompletion, WrongShell) {
  expect_failure(run_vsa({"completion", "fish"}), 2, "vsa completion",
                 "shell: expected bash or zsh, got fish");
  expect_failure(run_vsa({"completion"}), 2, "vsa completion", "expected shell");
}

}  // namespace
}  // namespace vsa::test
