// What every run of vsa must look like.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/cli/run_vsa.h"

namespace vsa::test {

/// Exit code 0, nothing on stderr: progress is for terminals, and there was nothing to say.
inline void expect_success(const RunResult& result) {
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
}

/// `vsa NAME: error: ...` with `text` in it, perhaps `hint: ...`, and nothing else; no result.
inline void expect_failure(const RunResult& result, int exit_code, const std::string& command,
                           const std::string& text) {
  EXPECT_EQ(result.exit_code, exit_code) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, testing::HasSubstr(text));
  EXPECT_THAT(result.err, testing::StartsWith(command + ": error: "));
  const auto lines = std::ranges::count(result.err, '\n');
  const bool has_hint = result.err.find("\nhint: ") != std::string::npos;
  EXPECT_EQ(lines, has_hint ? 2 : 1) << result.err;
  EXPECT_THAT(result.err, testing::EndsWith("\n"));
}

}  // namespace vsa::test
