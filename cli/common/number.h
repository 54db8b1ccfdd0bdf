// Numbers as users write them: decimal, all of the text, in range; else a plain sentence.
// Host-only.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace vsa::cli {

/// Whole numbers that an option takes, ends included.
struct WholeRange {
  int64_t least = 0;
  int64_t most = std::numeric_limits<int64_t>::max();
  /// Instead of "a whole number from ... to ..." where that does not say all.
  std::string_view description = {};
};

/// Numbers that an option takes, ends included. Infinity as an end: none there.
struct NumberRange {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  /// Instead of "a number from ... to ..." where that does not say all.
  std::string_view description = {};
};

/// "a whole number from 1 to 64", "a whole number of at least 1".
std::string to_string(const WholeRange& range);
/// "a number from 0 to 1", "a number".
std::string to_string(const NumberRange& range);

/// Digits with perhaps a minus sign before them; leading zeros are ignored. Nothing is rounded,
/// cut off or read in another base.
/// @param what  the option or field, as the message names it
/// Throws Failure(kUsage) "what: expected RANGE, got TEXT", with a hint where one is known.
int64_t parse_whole(const std::string& what, std::string_view text, const WholeRange& range = {});

/// A finite decimal number, as 0.875, .875 or 1e-3. Throws as parse_whole.
double parse_number(const std::string& what, std::string_view text, const NumberRange& range = {});

/// What a message shows of a value: the text itself, quoted where it would not be readable, and
/// "nothing" if it is empty.
std::string shown(std::string_view text);

}  // namespace vsa::cli
