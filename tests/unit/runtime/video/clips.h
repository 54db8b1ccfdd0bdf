// Clips for the tests of video files.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>

#include "runtime/video/frames.h"

namespace vsa::test {

/// A red disk that moves to the right over a green-to-blue gradient: every frame differs from every
/// other, and channels, rows and columns cannot be swapped unseen.
inline video::Frames moving_disk(int64_t num_frames, int64_t height, int64_t width) {
  video::Frames clip{num_frames, height, width, {}};
  for (int64_t f = 0; f < num_frames; ++f) {
    const double centre_x =
        static_cast<double>(width * (f + 1)) / static_cast<double>(num_frames + 1);
    const double centre_y = static_cast<double>(height) / 3.0;
    for (int64_t y = 0; y < height; ++y) {
      for (int64_t x = 0; x < width; ++x) {
        const bool inside =
            std::hypot(static_cast<double>(x) - centre_x, static_cast<double>(y) - centre_y) <
            static_cast<double>(height) / 5.0;
        const auto ramp_y = static_cast<uint8_t>(200 * y / height);
        const auto ramp_x = static_cast<uint8_t>(200 * x / width);
        clip.rgb.push_back(inside ? 230 : 20);
        clip.rgb.push_back(inside ? 40 : ramp_y);
        clip.rgb.push_back(inside ? 40 : ramp_x);
      }
    }
  }
  return clip;
}

/// Bytes that no coder can make small.
inline video::Frames noise(int64_t num_frames, int64_t height, int64_t width) {
  std::mt19937 bits(7);
  video::Frames clip{num_frames, height, width, {}};
  clip.rgb.resize(static_cast<size_t>(num_frames * height * width * 3));
  for (uint8_t& byte : clip.rgb) byte = static_cast<uint8_t>(bits() >> 24);
  return clip;
}

}  // namespace vsa::test
