// Counts the columns that a text takes on a terminal. Host-only.
#include "cli/common/text_width.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace vsa::cli {
namespace {

struct Range {
  uint32_t first, last;
};

// Unicode 15, EastAsianWidth W and F, merged where only unassigned characters lie between.
constexpr std::array<Range, 23> kWide{
    {{0x1100, 0x115F}, {0x231A, 0x231B}, {0x2329, 0x232A},  {0x23E9, 0x23EC}, {0x25FD, 0x25FE},
     {0x2614, 0x2615}, {0x2648, 0x2653}, {0x26AA, 0x26AB},  {0x26BD, 0x26BE}, {0x26C4, 0x26C5},
     {0x2705, 0x2705}, {0x2728, 0x2728}, {0x2795, 0x2797},  {0x2B1B, 0x2B1C}, {0x2E80, 0x303E},
     {0x3041, 0xA4CF}, {0xA960, 0xA97C}, {0xAC00, 0xD7A3},  {0xF900, 0xFAFF}, {0xFE30, 0xFE6F},
     {0xFF01, 0xFF60}, {0xFFE0, 0xFFE6}, {0x1F300, 0x1FAFF}}};
constexpr Range kWidePlanes{0x20000, 0x3FFFD};

// Marks that combine with the character in front, and characters without a shape.
constexpr std::array<Range, 9> kNarrowest{{{0x0300, 0x036F},
                                           {0x0483, 0x0489},
                                           {0x0591, 0x05BD},
                                           {0x064B, 0x065F},
                                           {0x200B, 0x200F},
                                           {0x20D0, 0x20F0},
                                           {0xFE00, 0xFE0F},
                                           {0xFE20, 0xFE2F},
                                           {0xE0100, 0xE01EF}}};

template <size_t n>
bool is_in(uint32_t code, const std::array<Range, n>& ranges) {
  return std::ranges::any_of(
      ranges, [code](const Range& range) { return code >= range.first && code <= range.last; });
}

int64_t columns_of(uint32_t code) {
  if (is_in(code, kNarrowest)) return 0;
  const bool in_planes = code >= kWidePlanes.first && code <= kWidePlanes.last;
  return in_planes || is_in(code, kWide) ? 2 : 1;
}

struct Character {
  size_t bytes;
  uint32_t code;
};

/// The character that text begins with; a byte of its own where that is not UTF-8.
Character first_character(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  const size_t bytes = lead < 0x80 ? 1 : lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 0;
  if (bytes == 0 || bytes > text.size()) return {.bytes = 1, .code = '?'};
  uint32_t code = bytes == 1 ? lead : lead & (0xFFU >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return {.bytes = 1, .code = '?'};
    code = code << 6 | (byte(i) & 0x3FU);
  }
  return {.bytes = bytes, .code = code};
}

bool is_control(uint32_t code) { return code < 0x20 || (code >= 0x7F && code < 0xA0); }

}  // namespace

int64_t text_columns(std::string_view text) {
  int64_t columns = 0;
  while (!text.empty()) {
    const Character character = first_character(text);
    columns += columns_of(character.code);
    text.remove_prefix(character.bytes);
  }
  return columns;
}

std::string fit_columns(std::string_view text, int64_t columns) {
  constexpr std::string_view kCut = "...";
  const bool fits = text_columns(text) <= columns;
  const int64_t room = fits ? columns : std::max<int64_t>(0, columns - std::ssize(kCut));
  std::string result;
  int64_t used = 0;
  while (!text.empty()) {
    const Character character = first_character(text);
    used += columns_of(character.code);
    if (used > room) break;
    result += is_control(character.code) ? "?" : text.substr(0, character.bytes);
    text.remove_prefix(character.bytes);
  }
  if (!fits) result += kCut.substr(0, static_cast<size_t>(std::min<int64_t>(columns, 3)));
  return result;
}

}  // namespace vsa::cli
