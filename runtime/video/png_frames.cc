// Frames as numbered png files.
#include "runtime/video/png_frames.h"

#include <fmt/format.h>

#include <system_error>
#include <utility>
#include <vector>

#include "runtime/io/atomic_file.h"
#include "runtime/video/image.h"

namespace vsa::video {
namespace {

namespace fs = std::filesystem;

Status write_all(const FramePattern& pattern, const Frames& frames, int64_t scale,
                 const std::atomic<bool>* cancel) {
  std::vector<io::AtomicFile> files;
  for (int64_t i = 0; i < frames.num_frames; ++i) {
    if (cancel != nullptr && *cancel) {
      return Status(StatusCode::kCancelled,
                    fmt::format("[write_video] {}: cancelled", pattern.path_of(i).string()));
    }
    Image image = Image::filled(frames.height * scale, frames.width * scale, {});
    paste(frames.frame(i), frames.height, frames.width, {.scale = scale}, image);
    const Result<std::string> png = encode_png(image);
    VSA_TRY(png.status());
    Result<io::AtomicFile> file = io::AtomicFile::create(pattern.path_of(i));
    if (!file.ok()) return file.status();
    VSA_TRY(file->write(*png));
    VSA_TRY(file->seal());
    files.push_back(std::move(*file));
  }
  for (io::AtomicFile& file : files) VSA_TRY(file.commit());
  return {};
}

}  // namespace

std::optional<FramePattern> FramePattern::parse(const fs::path& path) {
  const std::string name = path.filename().string();
  const size_t percent = name.find('%');
  if (percent == name.npos || path.parent_path().string().find('%') != std::string::npos) return {};
  FramePattern result{path.parent_path(), name.substr(0, percent), "", 1};
  size_t next = percent + 1;
  const auto at = [&name](size_t i) { return i < name.size() ? name[i] : '\0'; };
  if (at(next) == '0' && at(next + 1) >= '1' && at(next + 1) <= '9') {
    result.min_digits = at(next + 1) - '0';
    next += 2;
  }
  if (at(next) != 'd') return {};
  result.after = name.substr(next + 1);
  if (result.after.find('%') != std::string::npos) return {};
  return result;
}

fs::path FramePattern::path_of(int64_t frame_idx) const {
  return directory / fmt::format("{}{:0{}d}{}", before, frame_idx, min_digits, after);
}

Status check_png_frames(const fs::path& path) {
  const FramePattern pattern = FramePattern::parse(path).value();
  std::error_code ignored;  // a directory that cannot be looked into fails the check that follows
  if (pattern.directory.empty() || fs::exists(pattern.directory, ignored)) {
    return io::check_writable(pattern.path_of(0));
  }
  return io::check_writable(pattern.directory);
}

Status write_png_frames(const fs::path& path, const Frames& frames, int64_t scale,
                        const std::atomic<bool>* cancel) {
  const FramePattern pattern = FramePattern::parse(path).value();
  std::error_code error;
  const bool is_new = !pattern.directory.empty() && fs::create_directory(pattern.directory, error);
  if (error) {
    return io_error(fmt::format("[write_video] {}: expected a directory that can be made, got: {}",
                                pattern.directory.string(), error.message()));
  }
  Status status = write_all(pattern, frames, scale, cancel);
  if (!status.ok() && is_new) fs::remove(pattern.directory, error);  // only if it is empty
  return status;
}

}  // namespace vsa::video
