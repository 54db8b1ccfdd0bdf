// docs/reference/cli.md shows what vsa prints: its `vsa plan` examples are run again.
#include <sstream>

#include "tests/cli/expect.h"

namespace vsa::test {
namespace {

/// A command of the page and the text below it.
struct Example {
  std::vector<std::string> args;
  std::string output;
};

/// All `$ vsa plan ...` of the page; an example ends at the next command or at the fence.
std::vector<Example> plan_examples() {
  std::istringstream page(read_file(std::string(VSA_SOURCE_DIR) + "/docs/reference/cli.md"));
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

}  // namespace
}  // namespace vsa::test
