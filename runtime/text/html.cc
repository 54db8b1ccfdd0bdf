// Character references of HTML in prompts. Host-only.
#include "runtime/text/html.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>

namespace vsa::text {
namespace {

struct Name {
  std::string_view name;
  std::string_view character;
};
constexpr std::array<Name, 25> kNames{{
    {"amp", "&"},         {"lt", "<"},          {"gt", ">"},         {"quot", "\""},
    {"apos", "'"},        {"nbsp", "\u00A0"},   {"ensp", "\u2002"},  {"emsp", "\u2003"},
    {"thinsp", "\u2009"}, {"ndash", "\u2013"},  {"mdash", "\u2014"}, {"lsquo", "\u2018"},
    {"rsquo", "\u2019"},  {"ldquo", "\u201C"},  {"rdquo", "\u201D"}, {"laquo", "\u00AB"},
    {"raquo", "\u00BB"},  {"hellip", "\u2026"}, {"bull", "\u2022"},  {"middot", "\u00B7"},
    {"copy", "\u00A9"},   {"reg", "\u00AE"},    {"trade", "\u2122"}, {"deg", "\u00B0"},
    {"times", "\u00D7"},
}};

/// Windows-1252 from 128 on; 0 where it has no character, which HTML leaves as it is.
constexpr std::array<uint16_t, 32> kWindows1252{
    0x20AC, 0,      0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021, 0x02C6, 0x2030, 0x0160,
    0x2039, 0x0152, 0,      0x017D, 0,      0,      0x2018, 0x2019, 0x201C, 0x201D, 0x2022,
    0x2013, 0x2014, 0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0,      0x017E, 0x0178};

std::string utf8(uint32_t c) {
  const auto continuation = [c](int shift) {
    return static_cast<char>(0x80U | (c >> shift & 0x3FU));
  };
  if (c < 0x80) return {static_cast<char>(c)};
  if (c < 0x800) return {static_cast<char>(0xC0U | c >> 6), continuation(0)};
  if (c < 0x10000) return {static_cast<char>(0xE0U | c >> 12), continuation(6), continuation(0)};
  return {static_cast<char>(0xF0U | c >> 18), continuation(12), continuation(6), continuation(0)};
}

/// What stands between "&#" and ";".
std::optional<std::string> numeric(std::string_view digits) {
  const bool hexadecimal = digits.starts_with('x') || digits.starts_with('X');
  if (hexadecimal) digits.remove_prefix(1);
  uint32_t value = 0;
  const char* const last = digits.data() + digits.size();
  const auto [end, error] = std::from_chars(digits.data(), last, value, hexadecimal ? 16 : 10);
  if (end != last || error == std::errc::invalid_argument) return std::nullopt;
  const bool is_surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (error != std::errc() || value == 0 || is_surrogate || value > 0x10FFFF) return utf8(0xFFFD);
  if (value >= 0x80 && value < 0xA0 && kWindows1252[value - 0x80] != 0) {
    value = kWindows1252[value - 0x80];
  }
  return utf8(value);
}

/// What stands between "&" and ";".
std::optional<std::string> character(std::string_view reference) {
  if (reference.starts_with('#')) return numeric(reference.substr(1));
  const auto* const found = std::ranges::find(kNames, reference, &Name::name);
  if (found == kNames.end()) return std::nullopt;
  return std::string(found->character);
}

}  // namespace

std::string unescape_html(std::string_view text) {
  constexpr size_t kLongest = 16;  // of "&name;", leading zeros of a number included
  std::string rest(text);
  std::string plain;
  size_t at = 0;
  for (size_t start = rest.find('&'); start != rest.npos; start = rest.find('&', at)) {
    plain.append(rest, at, start - at);
    const size_t length = std::string_view(rest).substr(start, kLongest).find(';');
    const auto found = length == rest.npos
                           ? std::nullopt
                           : character(std::string_view(rest).substr(start + 1, length - 1));
    at = start + (found ? length : 0);
    if (found == "&") {
      rest[at] = '&';  // in place of the ';': it may begin a reference that was escaped
    } else {
      plain += found.value_or("&");
      ++at;
    }
  }
  return plain.append(rest, at);
}

}  // namespace vsa::text
