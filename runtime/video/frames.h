// Decoded video in memory: 8-bit RGB frames. Host-only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace vsa::video {

/// Frames as [num_frames, height, width, 3] bytes, RGB.
struct Frames {
  int64_t num_frames = 0;
  int64_t height = 0;  ///< pixels
  int64_t width = 0;   ///< pixels
  std::vector<uint8_t> rgb;

  int64_t frame_bytes() const { return height * width * 3; }
  std::span<const uint8_t> frame(int64_t i) const {
    return {rgb.data() + i * frame_bytes(), static_cast<size_t>(frame_bytes())};
  }
};

}  // namespace vsa::video
