// Pictures: painting stays inside, PNG files hold what they were given, sheets are laid out right.
#include "runtime/video/image.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "runtime/video/contact_sheet.h"
#include "runtime/video/draw_text.h"
#include "runtime/video/read_video.h"
#include "tests/unit/runtime/io/files.h"
#include "tests/unit/runtime/video/clips.h"

namespace vsa::video {
namespace {

Rgb at(const Image& image, int64_t y, int64_t x) {
  return {image.pixel(y, x)[0], image.pixel(y, x)[1], image.pixel(y, x)[2]};
}

constexpr Rgb kRed{255, 0, 0};
constexpr Rgb kBlue{0, 0, 255};

TEST(Image, FillStaysInside) {
  Image image = Image::filled(3, 4, kBlue);
  image.fill(-1, 2, 2, 100, kRed);
  image.fill(5, 5, 1, 1, kRed);
  for (int64_t y = 0; y < 3; ++y) {
    for (int64_t x = 0; x < 4; ++x) EXPECT_EQ(at(image, y, x), y == 0 && x >= 2 ? kRed : kBlue);
  }
}

TEST(Image, PngIsLossless) {
  const test::ScratchDirectory scratch;
  const Frames clip = test::noise(1, 37, 53);
  throw_if_error(write_png(scratch / "a.png", {37, 53, clip.rgb}));
  EXPECT_EQ(read_video(scratch / "a.png").value().frames.rgb, clip.rgb);
}

TEST(Image, WritePngRefuses) {
  const test::ScratchDirectory scratch;
  EXPECT_EQ(write_png(scratch / "a.jpg", Image::filled(1, 1, kRed)).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(write_png(scratch / "a.png", {}).code(), StatusCode::kInvalidArgument);
  // More bytes than the encoder can count; none of them is looked at.
  EXPECT_EQ(write_png(scratch / "a.png", {1 << 20, 1 << 20, {}}).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(write_png(scratch / "/dev/null/a.png", Image::filled(1, 1, kRed)).code(),
            StatusCode::kIoError);
  EXPECT_EQ(scratch.num_entries(), 0U);
}

/// Frame i in the grey level 10 * i.
Frames numbered(int64_t num_frames, int64_t height, int64_t width) {
  Frames clip{num_frames, height, width, {}};
  for (int64_t i = 0; i < num_frames; ++i) {
    clip.rgb.insert(clip.rgb.end(), static_cast<size_t>(clip.frame_bytes()),
                    static_cast<uint8_t>(10 * i));
  }
  return clip;
}

TEST(ContactSheet, LaysOutRowsOfEight) {
  const Frames clip = numbered(16, 3, 5);
  const std::array<SheetVideo, 2> both{{{&clip, ""}, {&clip, ""}}};
  const Image sheet = contact_sheet(both, 2).value();
  // 8 frames of 10 pixels and 9 gaps of 4; 4 rows of 6 and 5 gaps.
  EXPECT_EQ(sheet.width, 8 * 10 + 9 * 4);
  EXPECT_EQ(sheet.height, 4 * 6 + 5 * 4);
  for (int64_t row = 0; row < 4; ++row) {
    for (int64_t column = 0; column < 8; ++column) {
      const auto level = static_cast<uint8_t>(10 * (row % 2 * 8 + column));
      const Rgb grey{level, level, level};
      EXPECT_EQ(at(sheet, 4 + row * 10, 4 + column * 14), grey);
      EXPECT_EQ(at(sheet, 4 + row * 10 + 5, 4 + column * 14 + 9), grey);
      EXPECT_EQ(at(sheet, 4 + row * 10 - 1, 4 + column * 14), (Rgb{24, 24, 24}));
    }
  }
}

TEST(ContactSheet, ShowsFirstAndLastOfALongVideo) {
  const Frames clip = numbered(25, 2, 2);
  const std::array<SheetVideo, 1> one{{{&clip, ""}}};
  const Image sheet = contact_sheet(one, 1).value();
  EXPECT_EQ(at(sheet, 4, 4)[0], 0);
  EXPECT_EQ(at(sheet, 4 + 6, 4 + 7 * 6)[0], 240);
}

TEST(ContactSheet, TitlesStandAboveTheirVideo) {
  const Frames clip = numbered(2, 3, 60);
  const std::array<SheetVideo, 2> both{{{&clip, "vsa"}, {&clip, "dense"}}};
  const Image sheet = contact_sheet(both, 1).value();
  EXPECT_EQ(sheet.height, 2 * (kTextLinePx + 3 + 4) + 4);
  int64_t inked = 0;
  for (int64_t x = 0; x < sheet.width; ++x) {
    EXPECT_EQ(at(sheet, 4 + kTextLinePx, x), at(sheet, 4 + 2 * kTextLinePx + 7, x)) << x;
    for (int64_t y = 4; y < 4 + kTextLinePx; ++y) inked += at(sheet, y, x)[0] > 200 ? 1 : 0;
  }
  EXPECT_EQ(at(sheet, 4 + kTextLinePx, 4 + 64)[0], 10);  // frame 1
  EXPECT_GT(inked, 50);
}

TEST(ContactSheet, RefusesWhatNoPngCanHold) {
  const Frames clip = numbered(16, 3, 5);
  const std::array<SheetVideo, 1> one{{{&clip, ""}}};
  const Status status = contact_sheet(one, 5000).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "[contact_sheet] scale: expected a sheet of at most 1024 MiB, got 200036x30012 pixels "
            "at scale 5000");
}

TEST(SideBySide, PutsRowsTogether) {
  const Frames left = numbered(2, 2, 1);
  Frames right = left;
  for (uint8_t& byte : right.rgb) byte = static_cast<uint8_t>(byte + 100);
  const Frames both = side_by_side(left, right).value();
  EXPECT_EQ(both.width, 2);
  EXPECT_EQ(both.rgb, (std::vector<uint8_t>{0,  0,  0,  100, 100, 100, 0,  0,  0,  100, 100, 100,
                                            10, 10, 10, 110, 110, 110, 10, 10, 10, 110, 110, 110}));
  EXPECT_EQ(side_by_side(left, numbered(3, 2, 1)).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(side_by_side(left, numbered(2, 2, 2)).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace vsa::video
