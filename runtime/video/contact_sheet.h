// Frames of one or more videos on one picture. Host-only.
#pragma once

#include <span>
#include <string>

#include "runtime/video/frames.h"
#include "runtime/video/image.h"

namespace vsa::video {

/// A video of a contact sheet.
struct SheetVideo {
  const Frames* frames = nullptr;
  std::string title;  ///< a line above it; empty: none
};

/// Up to 16 frames of each video at even distances, the first and the last among them, in rows of
/// 8; videos below each other.
/// @param scale  each pixel becomes scale x scale pixels
/// @return InvalidArgument if the sheet would be larger than a PNG may be (kMaxImageBytes)
Result<Image> contact_sheet(std::span<const SheetVideo> videos, int64_t scale);

/// Frame i of the result is frame i of `left` and of `right`, side by side.
/// @return InvalidArgument if the two differ in size or length
Result<Frames> side_by_side(const Frames& left, const Frames& right);

}  // namespace vsa::video
