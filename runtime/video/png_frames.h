// Frames as numbered png files; write_video is the entrance. Host-only.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "runtime/video/frames.h"
#include "runtime/video/write_video.h"
#include "vsa/status.h"

namespace vsa::video {

/// A name with one %d or %0Nd (N from 1 to 9) in its last part and no other '%'.
struct FramePattern {
  std::filesystem::path directory;
  std::string before;  ///< of the number, in the file's name
  std::string after;
  int min_digits = 1;

  static std::optional<FramePattern> parse(const std::filesystem::path& path);
  std::filesystem::path path_of(int64_t frame_idx) const;
};

/// Whether the frames' directory can be written to, or made.
Status check_png_frames(const std::filesystem::path& pattern);

/// One png a frame, numbered from 0. The files get their names when all are complete.
Status write_png_frames(const std::filesystem::path& pattern, const Frames& frames,
                        const WriteOptions& options);

}  // namespace vsa::video
