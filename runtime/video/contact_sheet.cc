// Frames of one or more videos on one picture.
#include "runtime/video/contact_sheet.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/video/draw_text.h"

namespace vsa::video {
namespace {

constexpr int64_t kMaxFrames = 16;
constexpr int64_t kColumns = 8;
constexpr int64_t kGap = 4;  // pixels
constexpr Rgb kBackground{24, 24, 24};
constexpr Rgb kInk{216, 216, 216};

int64_t shown(const Frames& video) { return std::min(video.num_frames, kMaxFrames); }
int64_t rows_of(const Frames& video) { return (shown(video) + kColumns - 1) / kColumns; }

}  // namespace

Result<Image> contact_sheet(std::span<const SheetVideo> videos, int64_t scale) {
  int64_t height = kGap;
  int64_t width = 0;
  for (const auto& [video, title] : videos) {
    const int64_t columns = std::min(shown(*video), kColumns);
    if (!title.empty()) height += kTextLinePx;
    height += rows_of(*video) * (video->height * scale + kGap);
    width = std::max(
        {width, columns * (video->width * scale + kGap) + kGap, 2 * kGap + text_width(title)});
  }
  if (width * 3 > kMaxImageBytes / height) {
    return invalid_argument(fmt::format(
        "[contact_sheet] scale: expected a sheet of at most {} MiB, got {}x{} pixels at scale {}",
        kMaxImageBytes >> 20, width, height, scale));
  }
  Image sheet = Image::filled(height, width, kBackground);
  int64_t y = kGap;
  for (const auto& [video, title] : videos) {
    if (!title.empty()) {
      draw_text(sheet, y, kGap, title, kInk);
      y += kTextLinePx;
    }
    const int64_t count = shown(*video);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t frame = count == 1 ? 0 : i * (video->num_frames - 1) / (count - 1);
      paste(video->frame(frame), video->height, video->width,
            {.y = y + i / kColumns * (video->height * scale + kGap),
             .x = kGap + i % kColumns * (video->width * scale + kGap),
             .scale = scale},
            sheet);
    }
    y += rows_of(*video) * (video->height * scale + kGap);
  }
  return sheet;
}

Result<Frames> side_by_side(const Frames& left, const Frames& right) {
  if (left.num_frames != right.num_frames || left.height != right.height ||
      left.width != right.width) {
    return invalid_argument(fmt::format(
        "[side_by_side] right: expected {} frames of {}x{}, got {} of {}x{}", left.num_frames,
        left.height, left.width, right.num_frames, right.height, right.width));
  }
  Frames both{.num_frames = left.num_frames,
              .height = left.height,
              .width = 2 * left.width,
              .rgb = std::vector<uint8_t>(left.rgb.size() * 2)};
  const int64_t row_bytes = left.width * 3;
  auto to = both.rgb.begin();
  for (int64_t row = 0; row < left.num_frames * left.height; ++row) {
    to = std::copy_n(left.rgb.begin() + row * row_bytes, row_bytes, to);
    to = std::copy_n(right.rgb.begin() + row * row_bytes, row_bytes, to);
  }
  return both;
}

}  // namespace vsa::video
