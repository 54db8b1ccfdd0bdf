// Reading a video back into frames. Host-only.
#pragma once

#include <filesystem>

#include "runtime/video/frames.h"
#include "vsa/status.h"

namespace vsa::video {

struct Video {
  Frames frames;
  double fps = 0.0;  ///< 25 for png frames, which do not say
};

/// Decodes the first video stream of a file, or numbered png files given as dir/%04d.png. Colours
/// of 4:2:0 are repeated, not smoothed, which undoes what write_video does at an even scale.
/// @return IoError if the file cannot be read, holds no video, or changes its size on the way
Result<Video> read_video(const std::filesystem::path& path);

}  // namespace vsa::video
