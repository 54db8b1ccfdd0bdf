// Writes a video on a thread of its own while its frames are made. Host-only.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <span>
#include <thread>

#include "runtime/video/frames.h"
#include "runtime/video/write_video.h"

namespace vsa::video {

/// What is to be written.
struct VideoTarget {
  std::filesystem::path path;
  double fps = 0.0;
  int64_t scale = 1;
  const std::atomic<bool>* cancel = nullptr;  ///< may be null
  Metadata metadata{};
};

/// One video. add() and finish() are for one thread.
class BackgroundWriter {
 public:
  /// Takes memory for all frames, and begins.
  BackgroundWriter(VideoTarget target, int64_t num_frames, int64_t height, int64_t width);
  /// A video that was not finished leaves nothing behind.
  ~BackgroundWriter();
  BackgroundWriter(const BackgroundWriter&) = delete;
  BackgroundWriter& operator=(const BackgroundWriter&) = delete;

  /// The next frames, whole; copied.
  /// @param rgb  [some frames, height, width, 3]
  void add(std::span<const uint8_t> rgb);

  /// Waits until the video has its name. After all frames were added; once.
  /// @return errors of write_video
  Status finish();

  /// All frames; after finish().
  Frames take_frames() { return std::move(frames_); }

 private:
  bool wait_for(int64_t frame);

  VideoTarget target_;
  Frames frames_;
  Status status_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t ready_ = 0;     // frames that were added
  bool stopped_ = false;  // no more will be
  std::thread thread_;
};

}  // namespace vsa::video
