// What every run of vsa must look like.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <string>

#include "tests/cli/run_vsa.h"

namespace vsa::test {

/// What a run said on stderr, without the plain lines of its progress.
inline std::string messages(const std::string& err) {
  // A step of so many, or what takes longer than ten seconds, as it does on a busy machine.
  static const std::regex progress(
      "[^\n]*: ((step )?[0-9]+/[0-9]+(, [0-9a-z ]+ left)?|[^\n]*, [0-9a-z ]+ left)\n");
  return std::regex_replace(err, progress, "");
}

/// Exit code 0, nothing on stderr but progress: there was nothing to say.
inline void expect_success(const RunResult& result) {
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(messages(result.err), "");
}

/// `vsa NAME: error: ...` with `text` in it, perhaps `hint: ...`, and nothing else; no result.
inline void expect_failure(const RunResult& result, int exit_code, const std::string& command,
                           const std::string& text) {
  EXPECT_EQ(result.exit_code, exit_code) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, testing::HasSubstr(text));
  const std::string err = messages(result.err);
  EXPECT_THAT(err, testing::StartsWith(command + ": error: "));
  const auto lines = std::ranges::count(err, '\n');
  const bool has_hint = err.find("\nhint: ") != std::string::npos;
  EXPECT_EQ(lines, has_hint ? 2 : 1) << err;
  EXPECT_THAT(err, testing::EndsWith("\n"));
}

}  // namespace vsa::test
