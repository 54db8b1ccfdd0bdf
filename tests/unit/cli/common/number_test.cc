// Numbers as users write them.
#include "cli/common/number.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/common/failure.h"

namespace vsa::cli {
namespace {

/// "message" or "message\nhint" of the failure.
template <class Parse>
std::string failure_of(const Parse& parse) {
  try {
    parse();
  } catch (const Failure& e) {
    EXPECT_EQ(e.code(), ExitCode::kUsage);
    return e.hint().empty() ? e.what() : e.what() + ("\n" + e.hint());
  }
  return "no failure";
}

std::string whole_failure(const std::string& text, const WholeRange& range = {.least = 1}) {
  return failure_of([&] { parse_whole("--n", text, range); });
}

std::string number_failure(const std::string& text, const NumberRange& range = {}) {
  return failure_of([&] { parse_number("--x", text, range); });
}

TEST(Number, P23_WholeNumbersAreDecimalWhateverTheyBeginWith) {
  EXPECT_EQ(parse_whole("--n", "010"), 10);
  EXPECT_EQ(parse_whole("--n", "016"), 16);
  EXPECT_EQ(parse_whole("--n", "0000000000000000000000000009"), 9);
  EXPECT_EQ(parse_whole("--n", "0"), 0);
  EXPECT_EQ(parse_whole("--n", "-1", {.least = -1}), -1);
  EXPECT_EQ(parse_whole("--n", "9223372036854775807"), 9223372036854775807);
}

TEST(Number, P23_WholeNumbersAreWholeOrRefused) {
  const std::string expected = "--n: expected a whole number of at least 1, got ";
  for (const char* text : {"0x10x", "12abc", "+5", "--5", "5-", "1_000", "1,000", "\xD9\xA3", "inf",
                           "nan", "true", "0b1", "9223372036854775808", "18446744073709551615",
                           "99999999999999999999999", "-9223372036854775809", "0", "-1", "0.5"}) {
    EXPECT_THAT(whole_failure(text), testing::StartsWith(expected)) << text;
  }
  EXPECT_EQ(whole_failure(""), expected + "nothing");
  EXPECT_EQ(whole_failure(" 5"), expected + "\" 5\"");
  EXPECT_EQ(whole_failure("7\n"), expected + "\"7\\n\"");
  EXPECT_EQ(whole_failure("1e3"), expected + "1e3\nthat is 1000 in digits");
  EXPECT_EQ(whole_failure("4.0"), expected + "4.0\nthat is 4 in digits");
  EXPECT_EQ(whole_failure("1e300"), expected + "1e300");
  EXPECT_EQ(whole_failure("0x10"), expected + "0x10\nwrite it in decimal digits");
  EXPECT_EQ(whole_failure("65", {.least = 1, .most = 64}),
            "--n: expected a whole number from 1 to 64, got 65");
}

TEST(Number, P23_NumbersAreFiniteAndDecimal) {
  EXPECT_EQ(parse_number("--x", "0.875"), 0.875);
  EXPECT_EQ(parse_number("--x", ".5"), 0.5);
  EXPECT_EQ(parse_number("--x", "010.5"), 10.5);
  EXPECT_EQ(parse_number("--x", "1e3"), 1000.0);
  EXPECT_EQ(parse_number("--x", "-2"), -2.0);
  for (const char* text : {"", " 1", "1 ", "0x1p3", "inf", "-inf", "infinity", "nan", "nan(1)",
                           "1e999", "1e-999", "1.2.3", "1e", "e5", "1f", "half", "+1"}) {
    EXPECT_THAT(number_failure(text), testing::StartsWith("--x: expected a number, got ")) << text;
  }
  EXPECT_EQ(number_failure("0,875"),
            "--x: expected a number, got 0,875\nthe decimal separator is a point: 0.875");
  EXPECT_EQ(number_failure("87.5%"), "--x: expected a number, got 87.5%\nthat is 0.875 as a share");
  EXPECT_EQ(number_failure("1.5", {.least = 0.0, .most = 1.0}),
            "--x: expected a number from 0 to 1, got 1.5");
}

}  // namespace
}  // namespace vsa::cli
