// How progress looks on terminals of several kinds, and without one.
#include <algorithm>
#include <chrono>
#include <sstream>

#include "cli/common/text_width.h"
#include "tests/cli/expect.h"
#include "tests/runtime_support/tiny_model.h"

namespace vsa::test {
namespace {

using Args = std::vector<std::string>;
using testing::HasSubstr;
using testing::Not;

struct CliProgress : testing::Test {
  TemporaryDirectory dir;
  std::string model = dir.file("model");

  CliProgress() { TinyModel().write(model); }

  RunResult generate(const Args& more, const RunOptions& options) const {
    Args args = {"generate", "--model", model, "--prompt", "x", "-o", dir.file("a.y4m")};
    args.insert(args.end(), more.begin(), more.end());
    return run_vsa(args, options);
  }

  static RunOptions terminal(unsigned short columns, const std::string& term = "xterm") {
    RunOptions options;
    options.terminal_stderr = true;
    options.terminal_columns = columns;
    options.environment = {"TERM=" + term, "NO_COLOR=", "COLUMNS="};
    return options;
  }

  /// Columns of the longest thing that was drawn.
  static int64_t widest(const std::string& err) {
    int64_t columns = 0;
    for (size_t start = 0; start < err.size();) {
      const size_t end = std::min(err.find("\r\033[K", start), err.size());
      columns = std::max(columns, cli::text_columns(err.substr(start, end - start)));
      start = end + 4;
    }
    return columns;
  }

  static Args lines(const std::string& text) {
    Args result;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) result.push_back(line);
    return result;
  }
};

TEST_F(CliProgress, P29_OneLineThatFitsTheTerminal) {
  for (const unsigned short columns : std::initializer_list<unsigned short>{120, 60, 40, 20}) {
    const RunResult result = generate({"--steps", "20"}, terminal(columns));
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_THAT(result.err, HasSubstr("\r\033[K"));
    EXPECT_LT(widest(result.err), columns);
    EXPECT_THAT(result.err, Not(HasSubstr("\n")));
  }
  RunOptions named = terminal(0);
  named.environment.back() = "COLUMNS=50";
  EXPECT_LT(widest(generate({"--steps", "20"}, named).err), 50);
}

TEST_F(CliProgress, P29_LongNamesOfABatchAreCut) {
  const std::string name(150, 'n');
  write_file(dir.file("list.json"), R"([{"prompt": "a", "name": ")" + name + R"("}])");
  const RunResult result = run_vsa({"generate", "--model", model, "--steps", "20", "--batch",
                                    dir.file("list.json"), "-o", dir.file("out/{name}.y4m")},
                                   terminal(60));
  EXPECT_EQ(result.exit_code, 0);
  const std::string drawn = result.err.substr(0, result.err.rfind("\r\033[K"));
  EXPECT_LT(widest(drawn), 60);
  EXPECT_THAT(drawn, HasSubstr("1/1 nnnn"));
  EXPECT_THAT(drawn, HasSubstr("..."));
  EXPECT_THAT(drawn, HasSubstr("step "));
}

TEST_F(CliProgress, P29_NoEscapesOnADumbTerminalOrWithoutColour) {
  for (const RunOptions& options : {terminal(60, "dumb"), terminal(60, ""), [] {
                                      RunOptions no_color = terminal(60);
                                      no_color.environment[1] = "NO_COLOR=1";
                                      return no_color;
                                    }()}) {
    const RunResult result = generate({"--steps", "3"}, options);
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_THAT(result.err, Not(HasSubstr("\033")));
    EXPECT_THAT(result.err, HasSubstr("denoise: step 3/3"));
  }
}

TEST_F(CliProgress, P29_OnePlainLineAStepWithoutATerminal) {
  const RunResult result = generate({"--steps", "4"}, {});
  const Args got = lines(result.err);
  ASSERT_EQ(got.size(), 4U) << result.err;
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_THAT(got[i], testing::StartsWith("denoise: step " + std::to_string(i + 1) + "/4"));
  }
  EXPECT_THAT(got[0], testing::EndsWith(" left"));
  EXPECT_EQ(got[3], "denoise: step 4/4");
  EXPECT_EQ(messages(result.err), "");
}

TEST_F(CliProgress, P29_ManyStepsAreSaidOnceASecond) {
  const auto start = std::chrono::steady_clock::now();
  const RunResult result = generate({"--steps", "120"}, {});
  const auto seconds =
      std::chrono::ceil<std::chrono::seconds>(std::chrono::steady_clock::now() - start);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_LE(std::ssize(lines(result.err)), seconds.count() + 1);  // the last step is always said
  EXPECT_THAT(result.err, testing::EndsWith("denoise: step 120/120\n"));
}

TEST(TextWidth, P29_ColumnsAreCountedNotBytes) {
  EXPECT_EQ(cli::text_columns("abc"), 3);
  EXPECT_EQ(cli::text_columns("\u00E9\u00E8"), 2);
  EXPECT_EQ(cli::text_columns("e\u0301"), 1);
  EXPECT_EQ(cli::text_columns("\u6F22\u5B57"), 4);
  EXPECT_EQ(cli::text_columns("\U0001F680"), 2);
  EXPECT_EQ(cli::text_columns("\xFF\xC3"), 2);
  EXPECT_EQ(cli::fit_columns("abcdef", 6), "abcdef");
  EXPECT_EQ(cli::fit_columns("abcdefg", 6), "abc...");
  EXPECT_EQ(cli::fit_columns("\u6F22\u5B57\u6F22\u5B57", 6), "\u6F22...");
  EXPECT_EQ(cli::fit_columns("abc", 2), "..");
  EXPECT_EQ(cli::fit_columns("a\033[2Jb\n", 20), "a?[2Jb?");
}

}  // namespace
}  // namespace vsa::test
