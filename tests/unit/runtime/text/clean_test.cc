// Prompt cleaning: white space, HTML, quotation marks and UTF-8.
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
  const std::string text =
      "caf\u00E9 \u6F22\u5B57 \U0001F600 AT&T a & b; &unknown; <b> \u2014 \u2026";
  EXPECT_EQ(clean_prompt(text).value(), text);
}

// What Wan's own cleaning (ftfy 6.3, then html.unescape twice) makes of the same text.
TEST(CleanPrompt, IsWhatThePythonPipelineFeedsTheModel) {
  const std::pair<std::string, std::string> cases[] = {
      {"Tom &amp; Jerry", "Tom & Jerry"},
      {"&quot;a&quot; &lt;b&gt;", "\"a\" <b>"},
      {"&#39;x&#39; &#x27;y&#X27;", "'x' 'y'"},
      {"&amp;amp; &amp;lt;", "& <"},  // escaped twice
      {"a&nbsp;&#160;b&nbsp;", "a b"},
      {"it&#146;s &rsquo;s", "it's 's"},  // Windows-1252 by its number
      {"\u201Cred\u201D \u2018circle\u2019", "\"red\" 'circle'"},
      {"&#0; &#xD800; &#1114112; &#99999999999;", "\uFFFD \uFFFD \uFFFD \uFFFD"},
      {"&#x1F600;&#233;", "\U0001F600\u00E9"},
      {"\uFEFFa\x07\x1F b\x7F", "a b"},
      {"& &; &#; &#x; &#-1; &#+1; &", "& &; &#; &#x; &#-1; &#+1; &"},
  };
  for (const auto& [text, clean] : cases) EXPECT_EQ(clean_prompt(text).value(), clean) << text;
}

TEST(CleanPrompt, ManyAmpersandsAreNoWork) {
  std::string nested = "&lt;";
  std::string hopeful;
  for (int i = 0; i < 100000; ++i) {
    nested.insert(1, "amp;");
    hopeful += '&';
  }
  EXPECT_EQ(clean_prompt(nested).value(), "<");
  EXPECT_EQ(clean_prompt(hopeful + ";").value(), hopeful + ";");
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
