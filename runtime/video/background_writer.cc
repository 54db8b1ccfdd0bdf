// Writes a video on a thread of its own while its frames are made.
#include "runtime/video/background_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>

namespace vsa::video {

BackgroundWriter::BackgroundWriter(VideoTarget target, int64_t num_frames, int64_t height,
                                   int64_t width)
    : target_(std::move(target)),
      frames_{.num_frames = num_frames,
              .height = height,
              .width = width,
              .rgb = std::vector<uint8_t>(static_cast<size_t>(num_frames * height * width * 3))} {
  thread_ = std::thread([this] {
    try {
      status_ = write_video(target_.path, frames_,
                            {.fps = target_.fps,
                             .scale = target_.scale,
                             .cancel = target_.cancel,
                             .metadata = target_.metadata,
                             .wait_for_frame = [this](int64_t i) { return wait_for(i); }});
    } catch (const std::bad_alloc&) {
      status_ = out_of_memory("[write_video] memory: expected enough, got none");
    } catch (const std::exception& fault) {
      status_ = Status(StatusCode::kInternal, fmt::format("[write_video] {}", fault.what()));
    }
  });
}

BackgroundWriter::~BackgroundWriter() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void BackgroundWriter::add(std::span<const uint8_t> rgb) {
  // Only the frames before ready_ are read by the other thread.
  std::ranges::copy(rgb, frames_.rgb.begin() + ready_ * frames_.frame_bytes());
  {
    const std::lock_guard lock(mutex_);
    ready_ += std::ssize(rgb) / frames_.frame_bytes();
  }
  changed_.notify_all();
}

Status BackgroundWriter::finish() {
  thread_.join();
  return status_;
}

bool BackgroundWriter::wait_for(int64_t frame) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return stopped_ || frame < ready_; });
  return frame < ready_;
}

}  // namespace vsa::video
