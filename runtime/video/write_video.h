// Writing frames as mp4, gif, y4m or numbered png files. Host-only.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>

#include "runtime/video/frames.h"
#include "runtime/video/metadata.h"
#include "vsa/status.h"

namespace vsa::video {

enum class VideoKind { kMp4, kGif, kPngFrames, kY4m };

/// Frames per second that a video may have at most.
inline constexpr double kMaxFps = 1000.0;

/// What a file of that exact name would hold: .mp4, .gif, .y4m (case does not matter), or .png with
/// one %d or %0Nd for the number of the frame, from 0. No name is ever changed or completed.
/// @return InvalidArgument listing the kinds for any other name
Result<VideoKind> video_kind(const std::filesystem::path& path);

/// Finds out before a long run whether write_video could write there.
/// @return InvalidArgument as video_kind; IoError as io::check_writable
Status check_video_path(const std::filesystem::path& path);

/// Writes all frames; on failure nothing is left under the final name. The same frames give the
/// same bytes with the same FFmpeg libraries.
/// - mp4: H.264 in 4:2:0, near lossless; needs even sizes, so an odd edge is repeated once
/// - gif: one palette of 256 colours for all frames, dithered; plays endlessly. It counts 1/100 s:
///   single frames may be 1/200 s off, the whole keeps its length
/// - png: one file a frame, lossless; the directory is made if it is missing
/// - y4m: 4:4:4, uncompressed, BT.601
/// @param fps    frames per second, above 0, at most kMaxFps; kept as a fraction (23.976 =
/// 2997/125)
/// @param scale  each pixel becomes scale x scale pixels, unsmoothed; at least 1
/// @param metadata  what the file says about itself; see Metadata
/// @param cancel set it to stop within a frame; may be null
/// @return InvalidArgument (name, frames, fps or scale) | Unsupported (an encoder is missing from
///         this build of FFmpeg) | IoError | Cancelled | OutOfMemory
Status write_video(const std::filesystem::path& path, const Frames& frames, double fps,
                   int64_t scale = 1, const std::atomic<bool>* cancel = nullptr,
                   const Metadata& metadata = {});

/// How a video is written.
struct WriteOptions {
  double fps = 0.0;
  int64_t scale = 1;
  const std::atomic<bool>* cancel = nullptr;  ///< may be null
  Metadata metadata{};
  /// Returns once frame i is there, or false if it will never be; empty: all are. Frames are asked
  /// for in their order.
  std::function<bool(int64_t i)> wait_for_frame{};
};

/// The same of frames that are still being made: only their number and size are known at first.
/// @return also Cancelled if a frame will never be there
Status write_video(const std::filesystem::path& path, const Frames& frames,
                   const WriteOptions& options);

}  // namespace vsa::video
