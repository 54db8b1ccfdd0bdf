// Brings a prompt into the form the tokenizer was trained on. Host-only.
#include "runtime/text/clean.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>

#include "runtime/text/html.h"

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

/// Control characters but white space, and marks that say how to lay out or decode text.
bool is_invisible(uint32_t c) {
  return (c < 0x20 && !is_space(c)) || c == 0x7F || (c >= 0x206A && c <= 0x206F) || c == 0xFEFF ||
         (c >= 0xFFF9 && c <= 0xFFFB);
}

/// A curly quotation mark as the straight one that models know; 0 for any other character.
char straight_quote(uint32_t c) {
  if (c == 0x02BC || (c >= 0x2018 && c <= 0x201B)) return '\'';
  return c >= 0x201C && c <= 0x201F ? '"' : '\0';
}

/// Ok if all of `prompt` is UTF-8.
Status check_utf8(std::string_view prompt) {
  for (size_t at = 0; at < prompt.size();) {
    const CodePoint c = decode(prompt.substr(at));
    if (c.length == 0) {
      return invalid_argument(
          fmt::format("[tokenize] prompt: expected UTF-8, got byte 0x{:02x} at position {}",
                      static_cast<uint8_t>(prompt[at]), at));
    }
    at += c.length;
  }
  return {};
}

}  // namespace

Result<std::string> clean_prompt(std::string_view prompt) {
  VSA_TRY(check_utf8(prompt));
  const std::string text = unescape_html(prompt);
  std::string clean;
  bool space_before = false;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = decode(std::string_view(text).substr(at));
    if (is_space(c.value)) {
      space_before = true;
    } else if (!is_invisible(c.value)) {
      if (space_before && !clean.empty()) clean += ' ';
      space_before = false;
      const char quote = straight_quote(c.value);
      if (quote != '\0') {
        clean += quote;
      } else {
        clean.append(text, at, c.length);
      }
    }
    at += c.length;
  }
  return clean;
}

}  // namespace vsa::text
