// What a mistyped word meant.
#include "cli/common/nearest.h"

#include <gtest/gtest.h>

namespace vsa::cli {
namespace {

const std::vector<std::string> kWords = {"--grid", "--tile", "--sparsity", "--negative-prompt",
                                         "--prompt"};

TEST(Nearest, FindsTyposAndBeginnings) {
  EXPECT_EQ(nearest("--gird", kWords), "--grid");
  EXPECT_EQ(nearest("--grd", kWords), "--grid");
  EXPECT_EQ(nearest("--sparcity", kWords), "--sparsity");
  EXPECT_EQ(nearest("--neg", kWords), "--negative-prompt");
  EXPECT_EQ(nearest("--negative_prompt", kWords), "--negative-prompt");
}

TEST(Nearest, NothingIsBetterThanAWildGuess) {
  EXPECT_EQ(nearest("--frobnicate", kWords), std::nullopt);
  EXPECT_EQ(nearest("--x", kWords), std::nullopt);
  EXPECT_EQ(nearest(std::string(5000, 'a'), kWords), std::nullopt);
  EXPECT_EQ(nearest("--grid", {}), std::nullopt);
}

}  // namespace
}  // namespace vsa::cli
