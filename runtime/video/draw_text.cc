// Labels on pictures, by stb_easy_font.
#include "runtime/video/draw_text.h"

#include <stb_easy_font.h>

#include <array>
#include <cmath>
#include <vector>

namespace vsa::video {
namespace {

constexpr int64_t kScale = 2;  // pixels for each of the font's

/// The font looks characters up without a check, and takes a newline for one.
std::string drawable(std::string text) {
  for (char& c : text) {
    if (c < ' ' || c > '~') c = '?';
  }
  return text;
}

/// One corner as the font gives it.
struct Vertex {
  float x, y, z;
  std::array<uint8_t, 4> colour;
};
static_assert(sizeof(Vertex) == 16);

}  // namespace

int64_t text_width(const std::string& text) {
  return kScale * stb_easy_font_width(drawable(text).data());
}

void draw_text(Image& image, int64_t y, int64_t x, const std::string& text, Rgb colour) {
  std::string known = drawable(text);
  // The font is made of line segments: at most 7 a character, each a rectangle of 4 corners.
  constexpr size_t kMostCorners = 4 * 16;
  std::vector<Vertex> corners(kMostCorners * known.size());
  const int count = stb_easy_font_print(0.0F, 0.0F, known.data(), nullptr, corners.data(),
                                        static_cast<int>(corners.size() * sizeof(Vertex)));
  const auto px = [](float at) { return kScale * std::lround(at); };
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    const Vertex& upper_left = corners[4 * i];
    const Vertex& lower_right = corners[4 * i + 2];
    image.fill(y + px(upper_left.y), x + px(upper_left.x), px(lower_right.y - upper_left.y),
               px(lower_right.x - upper_left.x), colour);
  }
}

}  // namespace vsa::video
