// The pages of docs/reference/ about the command line say what vsa does: their `vsa plan` examples
// are run again, and they name every option.
#include <regex>
#include <sstream>

#include "tests/cli/expect.h"

namespace vsa::test {
namespace {

/// The text of docs/reference/`name`.
std::string page_of(const std::string& name) {
  return read_file(std::string(VSA_SOURCE_DIR) + "/docs/reference/" + name);
}

/// A command of the page and the text below it.
struct Example {
  std::vector<std::string> args;
  std::string output;
};

/// All `$ vsa plan ...` of the page; an example ends at the next command or at the fence.
std::vector<Example> plan_examples() {
  std::istringstream page(page_of("cli-attention.md"));
  std::vector<Example> examples;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("$ vsa plan ")) {
      std::istringstream words(line.substr(6));
      examples.emplace_back();
      for (std::string word; words >> word;) examples.back().args.push_back(word);
      inside = true;
    } else if (line.starts_with("$ ") || line.starts_with("```")) {
      inside = false;
    } else if (inside) {
      examples.back().output += line + "\n";
    }
  }
  return examples;
}

TEST(CliDocs, PlanExamplesAreWhatItPrints) {
  const std::vector<Example> examples = plan_examples();
  ASSERT_EQ(examples.size(), 2U);
  for (const Example& example : examples) {
    const RunResult result = run_vsa(example.args);
    EXPECT_EQ(result.out + result.err, example.output);
  }
}

TEST(CliDocs, EveryOptionIsNamedOnThePageOfItsCommandOrOnTheCommonPage) {
  const std::string common = page_of("cli.md");
  const std::regex option("--[a-z][a-z-]*");
  for (const auto& [file, commands] :
       {std::pair("cli-attention.md", std::vector{"plan", "attend", "inspect", "bench"}),
        {"cli-generate.md", {"generate", "decode", "verify"}}}) {
    const std::string text = common + page_of(file);
    for (const char* command : commands) {
      const std::string help = run_vsa({command, "--help"}).out;
      int options = 0;
      for (std::sregex_iterator it(help.begin(), help.end(), option), end; it != end; ++it) {
        ++options;
        // As a whole word: the page of --batch need not have --batch-size.
        EXPECT_TRUE(std::regex_search(text, std::regex(it->str() + "(?![a-z-])")))
            << file << " does not name " << it->str() << " of vsa " << command;
      }
      EXPECT_GE(options, 4) << command;
    }
  }
}

}  // namespace
}  // namespace vsa::test
