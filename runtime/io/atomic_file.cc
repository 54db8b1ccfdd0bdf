// A file that appears under its name whole, or not at all.
#include "runtime/io/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

namespace vsa::io {
namespace {

namespace fs = std::filesystem;

Status fail(const fs::path& path, std::string_view what) {
  return io_error(fmt::format("[write_file] {}: {}", path.string(), what));
}

fs::path directory_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

Status check_target(const fs::path& path) {
  if (!path.has_filename()) return fail(path, "expected the name of a file, got none");
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0) {
    if (S_ISREG(info.st_mode)) return {};
    return fail(path, S_ISDIR(info.st_mode)
                          ? "expected the name of a file, got that of a directory"
                          : "expected a regular file, got a device, fifo or socket");
  }
  if (errno == ENOENT) return {};
  return fail(path,
              fmt::format("expected a name that can be written, got: {}", std::strerror(errno)));
}

/// Gives a file a name that must be free; false if it is not, with errno EEXIST, or on an error.
bool rename_to_free(const fs::path& from, const fs::path& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP) return false;
  // A file system that cannot do it in one step: an empty file claims the name first.
  const int claim = ::open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (claim < 0) return false;
  ::close(claim);
  return ::rename(from.c_str(), to.c_str()) == 0;
}

/// "a.b" -> "a-2.b".
fs::path numbered(const fs::path& path, int number) {
  fs::path result = path;
  return result.replace_filename(
      fmt::format("{}-{}{}", path.stem().string(), number, path.extension().string()));
}

}  // namespace

void WrittenFile::remove() const {
  struct stat info {};
  if (path.empty() || ::lstat(path.c_str(), &info) != 0) return;
  if (info.st_dev == device && info.st_ino == inode) ::unlink(path.c_str());
}

Result<AtomicFile> AtomicFile::create(const fs::path& path) {
  VSA_TRY(check_target(path));
  Result<NewFolders> folders = NewFolders::make(path.parent_path());
  if (!folders.ok()) return folders.status();
  // O_EXCL makes the name ours, so process id and counter need not be unique across hosts. Its
  // length does not depend on the final name, which may be as long as the file system allows.
  static std::atomic<uint64_t> counter = 0;
  AtomicFile file;
  fs::path temporary;
  do {
    temporary = directory_of(path) / fmt::format(".vsa-{}-{}.tmp", ::getpid(), counter++);
    file.fd_ = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (file.fd_ < 0 && errno == EEXIST);
  if (file.fd_ < 0) {
    return fail(path, fmt::format("expected a directory that can be written to, got: {}",
                                  std::strerror(errno)));
  }
  file.path_ = path;
  file.temporary_ = std::move(temporary);
  file.folders_ = std::move(*folders);
  return file;
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept { *this = std::move(other); }

AtomicFile& AtomicFile::operator=(AtomicFile&& other) noexcept {
  path_.swap(other.path_);
  temporary_.swap(other.temporary_);
  std::swap(folders_, other.folders_);
  std::swap(fd_, other.fd_);
  std::swap(position_, other.position_);
  std::swap(status_, other.status_);
  return *this;
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  fd_ = -1;
  temporary_.clear();
}

Status AtomicFile::keep(const char* action) {
  status_ = fail(path_, fmt::format("expected to {}, got: {}", action, std::strerror(errno)));
  discard();
  return status_;
}

Status AtomicFile::write(std::span<const std::byte> bytes) {
  if (!status_.ok()) return status_;
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return keep("write");
    bytes = bytes.subspan(static_cast<size_t>(written));
    position_ += written;
  }
  return {};
}

Status AtomicFile::write(std::string_view text) { return write(std::as_bytes(std::span(text))); }

Status AtomicFile::seek(int64_t position) {
  if (!status_.ok()) return status_;
  if (::lseek(fd_, position, SEEK_SET) < 0) return keep("seek");
  position_ = position;
  return {};
}

Status AtomicFile::reserve(int64_t num_bytes) {
  if (!status_.ok()) return status_;
  if (num_bytes == 0) return {};
  errno = ::posix_fallocate(fd_, 0, num_bytes);
  return errno == 0 ? Status() : keep(fmt::format("find room for {} bytes", num_bytes).c_str());
}

Status AtomicFile::seal() {
  if (!status_.ok()) return status_;
  if (::fsync(fd_) != 0) return keep("flush");
  // A network file system may report a failed write only here.
  if (::close(std::exchange(fd_, -1)) != 0) return keep("close");
  return {};
}

Status AtomicFile::commit() {
  if (fd_ >= 0 || !status_.ok()) VSA_TRY(seal());
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return keep("rename");
  flush_directory();
  return {};
}

Result<WrittenFile> AtomicFile::commit_to_free_name() {
  if (fd_ >= 0 || !status_.ok()) VSA_TRY(seal());
  struct stat info {};
  if (::stat(temporary_.c_str(), &info) != 0) return keep("look at");
  const fs::path wanted = path_;
  for (int number = 2; !rename_to_free(temporary_, path_); ++number) {
    if (errno != EEXIST) return keep("rename");
    path_ = numbered(wanted, number);
  }
  flush_directory();
  return WrittenFile{.path = path_, .device = info.st_dev, .inode = info.st_ino};
}

/// The file is complete by now.
void AtomicFile::flush_directory() {
  temporary_.clear();
  folders_.keep();
  // This makes the name survive a power cut. Not every file system can, and nothing is lost for the
  // caller if it cannot.
  const int directory = ::open(directory_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory >= 0) {
    ::fsync(directory);
    ::close(directory);
  }
}

Status check_writable(const fs::path& path, int64_t num_bytes) {
  VSA_TRY(check_target(path));
  const fs::path folder = directory_of(path);
  const fs::path there = nearest_existing(folder);
  Result<AtomicFile> file = AtomicFile::create(there == folder ? path : there / "vsa");
  return file.ok() ? file->reserve(num_bytes) : file.status();
}

Status write_file(const fs::path& path, std::string_view text) {
  Result<AtomicFile> file = AtomicFile::create(path);
  if (!file.ok()) return file.status();
  VSA_TRY(file->write(text));
  return file->commit();
}

}  // namespace vsa::io
