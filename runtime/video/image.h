// One 8-bit RGB picture, and PNG files. Host-only.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "runtime/video/metadata.h"
#include "vsa/status.h"

namespace vsa::video {

using Rgb = std::array<uint8_t, 3>;

/// A picture as [height, width, 3] bytes, row by row from the top, RGB.
struct Image {
  int64_t height = 0;  ///< pixels
  int64_t width = 0;   ///< pixels
  std::vector<uint8_t> rgb;

  /// One colour throughout.
  static Image filled(int64_t height, int64_t width, Rgb colour);

  uint8_t* pixel(int64_t y, int64_t x) { return rgb.data() + (y * width + x) * 3; }
  const uint8_t* pixel(int64_t y, int64_t x) const { return rgb.data() + (y * width + x) * 3; }

  /// Paints a rectangle; what lies outside the picture is left out.
  void fill(int64_t y, int64_t x, int64_t fill_height, int64_t fill_width, Rgb colour);
};

/// Where a picture is copied to, and how much larger.
struct Placement {
  int64_t y = 0;      ///< of the upper left corner, pixels
  int64_t x = 0;      ///< of the upper left corner, pixels
  int64_t scale = 1;  ///< each source pixel becomes scale x scale pixels
};

/// Copies [height, width, 3] bytes into `image`, which must have the room.
void paste(std::span<const uint8_t> rgb, int64_t height, int64_t width, Placement to, Image& image);

/// The largest picture that is encoded: stb counts bytes in int, and what does not compress takes
/// an eighth more. Room for a frame of 16384 x 16384.
inline constexpr int64_t kMaxImageBytes = int64_t{1} << 30;

/// The bytes of a PNG file; lossless.
/// @return InvalidArgument (no pixel, or more than kMaxImageBytes) | OutOfMemory
Result<std::string> encode_png(const Image& image);

/// Whether a name ends in .png, in letters of either case.
bool is_png_name(const std::filesystem::path& path);

/// Writes a PNG, whole or not at all.
/// @return InvalidArgument (not .png, or as encode_png) | OutOfMemory | IoError
Status write_png(const std::filesystem::path& path, const Image& image,
                 const Metadata& metadata = {});

}  // namespace vsa::video
