// Prompt cleaning: white space and UTF-8.
#include "runtime/text/clean.h"

#include <gtest/gtest.h>

namespace vsa::text {
namespace {

TEST(CleanPrompt, CollapsesAndStripsWhiteSpace) {
  EXPECT_EQ(clean_prompt("  a\t\n b  ").value(), "a b");
  EXPECT_EQ(clean_prompt("").value(), "");
  EXPECT_EQ(clean_prompt(" \r\n\t").value(), "");
  // No-break space, en quad, ideographic space, line separator.
  EXPECT_EQ(clean_prompt("a\u00A0\u2000b\u3000\u2028c").value(), "a b c");
  // A zero-width space is not White_Space.
  EXPECT_EQ(clean_prompt("a\u200Bb").value(), "a\u200Bb");
}

TEST(CleanPrompt, KeepsEveryOtherCharacter) {
  const std::string text = "caf\u00E9 \u6F22\u5B57 \U0001F600 &amp;";
  EXPECT_EQ(clean_prompt(text).value(), text);
}

TEST(CleanPrompt, RefusesWhatIsNotUtf8) {
  const std::pair<std::string, int> cases[] = {
      {"ab\xFF", 2},            // never a byte of UTF-8
      {"a\x80", 1},             // continuation without a start
      {"\xC0\xAF", 0},          // overlong '/'
      {"\xE0\x80\xAF", 0},      // overlong in three bytes
      {"x\xED\xA0\x80", 1},     // surrogate
      {"\xF4\x90\x80\x80", 0},  // above U+10FFFF
      {"ok \xE6\xBC", 3},       // cut short
      {"\xE6\x41\x41", 0},      // no continuation
  };
  for (const auto& [text, position] : cases) {
    const Status status = clean_prompt(text).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("position " + std::to_string(position)), std::string::npos)
        << status.message();
  }
}

}  // namespace
}  // namespace vsa::text
