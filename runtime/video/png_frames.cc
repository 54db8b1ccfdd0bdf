// Frames as numbered png files.
#include "runtime/video/png_frames.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "runtime/io/atomic_file.h"
#include "runtime/video/image.h"

namespace vsa::video {
namespace {

namespace fs = std::filesystem;

/// Held while frames get their names, so that two runs do not mix their frames in one folder: the
/// later one replaces the frames of the earlier one. On a file system without locks nothing is
/// held.
class FolderLock {
 public:
  explicit FolderLock(const fs::path& folder)
      : fd_(::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (fd_ >= 0) ::flock(fd_, LOCK_EX);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock() {
    if (fd_ >= 0) ::close(fd_);
  }

 private:
  int fd_;
};

Status write_all(const FramePattern& pattern, const Frames& frames, const WriteOptions& options) {
  const int64_t scale = options.scale;
  std::vector<io::AtomicFile> files;
  for (int64_t i = 0; i < frames.num_frames; ++i) {
    const bool is_there = !options.wait_for_frame || options.wait_for_frame(i);
    if (!is_there || (options.cancel != nullptr && *options.cancel)) {
      return Status(StatusCode::kCancelled,
                    fmt::format("[write_video] {}: cancelled", pattern.path_of(i).string()));
    }
    Image image = Image::filled(frames.height * scale, frames.width * scale, {});
    paste(frames.frame(i), frames.height, frames.width, {.scale = scale}, image);
    const Result<std::string> png = encode_png(image);
    VSA_TRY(png.status());
    Result<io::AtomicFile> file = io::AtomicFile::create(pattern.path_of(i));
    if (!file.ok()) return file.status();
    VSA_TRY(file->write(png_with_metadata(*png, options.metadata)));
    VSA_TRY(file->seal());
    files.push_back(std::move(*file));
  }
  const FolderLock lock(pattern.directory);
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
  return io::check_writable(FramePattern::parse(path).value().path_of(0));
}

Status write_png_frames(const fs::path& path, const Frames& frames, const WriteOptions& options) {
  const FramePattern pattern = FramePattern::parse(path).value();
  // Held longer than the files in them, or the folders would not be empty at the end.
  Result<io::NewFolders> folders = io::NewFolders::make(pattern.directory);
  if (!folders.ok()) return folders.status();
  VSA_TRY(write_all(pattern, frames, options));
  folders->keep();
  return {};
}

}  // namespace vsa::video
