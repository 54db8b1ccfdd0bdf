// Labels on pictures, in a small bitmap font. Host-only.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/video/image.h"

namespace vsa::video {

/// Pixels from one line of labels to the next; capitals and digits are 14 high.
inline constexpr int64_t kTextLinePx = 24;

/// Width of one line of text in pixels.
int64_t text_width(const std::string& text);

/// Draws one line with its upper left corner at (y, x); what lies outside the picture is left out.
/// The font knows ASCII: any other byte is drawn as '?'.
void draw_text(Image& image, int64_t y, int64_t x, const std::string& text, Rgb colour);

}  // namespace vsa::video
