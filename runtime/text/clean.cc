// Brings a prompt into the form the tokenizer was trained on. Host-only.
#include "runtime/text/clean.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>

namespace vsa::text {
namespace {

struct CodePoint {
  uint32_t value = 0;
  size_t length = 0;  // bytes; 0 if not valid UTF-8
};

/// Decodes the code point at the front: no overlong forms, no surrogates, at most U+10FFFF.
CodePoint decode(std::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return {first, 1};
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return {};
  uint32_t value = first & (0x7FU >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return {};
    value = value << 6 | (byte(i) & 0x3FU);
  }
  constexpr std::array<uint32_t, 5> kSmallest{0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (value < kSmallest[length] || surrogate || value > 0x10FFFF) return {};
  return {value, length};
}

/// Unicode's White_Space property.
bool is_space(uint32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

}  // namespace

Result<std::string> clean_prompt(std::string_view prompt) {
  std::string clean;
  bool space_before = false;
  for (size_t at = 0; at < prompt.size();) {
    const CodePoint c = decode(prompt.substr(at));
    if (c.length == 0) {
      return invalid_argument(
          fmt::format("[tokenize] prompt: expected UTF-8, got byte 0x{:02x} at position {}",
                      static_cast<uint8_t>(prompt[at]), at));
    }
    if (is_space(c.value)) {
      space_before = true;
    } else {
      if (space_before && !clean.empty()) clean += ' ';
      clean += prompt.substr(at, c.length);
      space_before = false;
    }
    at += c.length;
  }
  return clean;
}

}  // namespace vsa::text
