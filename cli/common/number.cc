// Parses numbers strictly. Host-only.
#include "cli/common/number.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "cli/common/failure.h"
#include "runtime/io/printable.h"

namespace vsa::cli {
namespace {

/// A number that takes all of `text`; nothing for hexadecimal digits, infinities and NaN.
std::optional<double> finite(std::string_view text) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

/// A hint how to write the number that was probably meant; empty if there is none.
std::string remedy_of_whole(std::string_view text) {
  const std::optional<double> value = finite(text);
  // 1e15 has all its digits in a double.
  if (value && *value == std::trunc(*value) && std::abs(*value) < 1e15 &&
      text.find_first_of(".eE") != std::string_view::npos) {
    return fmt::format("that is {:.0f} in digits", *value);
  }
  if (text.starts_with("0x") || text.starts_with("0X")) return "write it in decimal digits";
  return "";
}

std::string remedy_of_number(std::string_view text) {
  if (text.ends_with('%')) {
    if (const auto percent = finite(text.substr(0, text.size() - 1))) {
      return fmt::format("that is {} as a share", *percent / 100.0);
    }
  }
  std::string pointed(text);
  std::ranges::replace(pointed, ',', '.');
  if (pointed != text && finite(pointed)) {
    return fmt::format("the decimal separator is a point: {}", pointed);
  }
  return "";
}

}  // namespace

std::string shown(std::string_view text) {
  if (text.empty()) return "nothing";
  const bool readable = text.size() <= 80 && text.front() != ' ' && text.back() != ' ' &&
                        std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
  return readable ? std::string(text) : io::printable(text);
}

std::string to_string(const WholeRange& range) {
  if (!range.description.empty()) return std::string(range.description);
  if (range.most == std::numeric_limits<int64_t>::max()) {
    return fmt::format("a whole number of at least {}", range.least);
  }
  return fmt::format("a whole number from {} to {}", range.least, range.most);
}

std::string to_string(const NumberRange& range) {
  if (!range.description.empty()) return std::string(range.description);
  if (std::isinf(range.least) && std::isinf(range.most)) return "a number";
  if (std::isinf(range.most)) return fmt::format("a number of at least {}", range.least);
  return fmt::format("a number from {} to {}", range.least, range.most);
}

int64_t parse_whole(const std::string& what, std::string_view text, const WholeRange& range) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < range.least ||
      value > range.most) {
    fail_usage(fmt::format("{}: expected {}, got {}", what, to_string(range), shown(text)),
               remedy_of_whole(text));
  }
  return value;
}

double parse_number(const std::string& what, std::string_view text, const NumberRange& range) {
  const std::optional<double> value = finite(text);
  if (!value || !(*value >= range.least && *value <= range.most)) {
    fail_usage(fmt::format("{}: expected {}, got {}", what, to_string(range), shown(text)),
               remedy_of_number(text));
  }
  return *value;
}

}  // namespace vsa::cli
