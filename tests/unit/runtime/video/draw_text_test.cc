// Labels: as wide as they say, in their colour only, never outside the picture.
#include "runtime/video/draw_text.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace vsa::video {
namespace {

constexpr Rgb kBlack{0, 0, 0};
constexpr Rgb kInk{10, 200, 30};

int64_t count(const Image& image, Rgb colour) {
  int64_t pixels = 0;
  for (int64_t y = 0; y < image.height; ++y) {
    for (int64_t x = 0; x < image.width; ++x) {
      if (std::equal(colour.begin(), colour.end(), image.pixel(y, x))) ++pixels;
    }
  }
  return pixels;
}

Image drawn(const std::string& text) {
  Image image = Image::filled(kTextLinePx, text_width(text), kBlack);
  draw_text(image, 0, 0, text, kInk);
  return image;
}

TEST(DrawText, FitsItsWidthAndLine) {
  for (const std::string text : {"0", "8", "kv tile 624", "%#&@WM{|}~", ""}) {
    Image wide = Image::filled(3 * kTextLinePx, text_width(text) + 40, kBlack);
    draw_text(wide, kTextLinePx, 20, text, kInk);
    const int64_t inside = count(drawn(text), kInk);
    EXPECT_EQ(count(wide, kInk), inside) << text;
    EXPECT_EQ(count(wide, kInk) + count(wide, kBlack), wide.height * wide.width);
    EXPECT_EQ(inside > 0, !text.empty());
  }
}

TEST(DrawText, TellsDigitsApart) {
  for (char a = '0'; a <= '9'; ++a) {
    for (char b = '0'; b < a; ++b) {
      EXPECT_NE(drawn(std::string(4, a)).rgb, drawn(std::string(4, b)).rgb) << a << b;
    }
  }
}

TEST(DrawText, UnknownBytesAreQuestionMarks) {
  EXPECT_EQ(drawn("a\xFF\n\x7F").rgb, drawn("a???").rgb);
  EXPECT_EQ(drawn(std::string("a\0b", 3)).rgb, drawn("a?b").rgb);
}

TEST(DrawText, OutsideOfThePictureNothingHappens) {
  Image image = Image::filled(4, 4, kBlack);
  for (const int64_t at : {-1000, -3, 2, 1000}) draw_text(image, at, at, "text", kInk);
  EXPECT_EQ(image.rgb.size(), 48U);
}

}  // namespace
}  // namespace vsa::video
