// A file that appears under its name whole, or not at all. Host-only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "vsa/status.h"

namespace vsa::io {

/// Writes go to a hidden temporary file in the directory of the final name; commit() puts it in
/// place with one rename. Until then a file already there stays as it is, and on any failure the
/// temporary file is removed. Only a killed process can leave one behind (.vsa-*.tmp).
///
/// The first error is kept: later writes do nothing and commit() reports it, so that a writer
/// driven by a library's callbacks need not pass errors through that library.
class AtomicFile {
 public:
  /// @return IoError if `path` is a directory or another special file, if its directory does not
  ///         exist or cannot be written to, or if the name is too long
  static Result<AtomicFile> create(const std::filesystem::path& path);

  AtomicFile() = default;
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&& other) noexcept;
  ~AtomicFile();

  /// At the current position, which then moves on.
  Status write(std::span<const std::byte> bytes);
  Status write(std::string_view text);
  /// Moves the position, in bytes from the start of the file.
  Status seek(int64_t position);
  int64_t position() const { return position_; }
  /// Ok, or the first error.
  const Status& status() const { return status_; }

  /// Takes the room for a file of that many bytes. @return IoError if there is not enough.
  Status reserve(int64_t num_bytes);
  /// Flushes to the device and closes; only commit() may follow. For a set of files that should
  /// appear together: seal all, then commit all.
  Status seal();
  /// Seals if that was not done, then renames to the final name and flushes the directory.
  Status commit();

 private:
  Status keep(const char* action);
  void discard();

  std::filesystem::path path_;
  std::filesystem::path temporary_;  // empty: nothing to remove
  int fd_ = -1;
  int64_t position_ = 0;
  Status status_;
};

/// Finds out before a long run whether a file of that name could be written: creates and removes a
/// temporary file beside it. The name itself is not touched.
/// @param num_bytes  what there has to be room for at least
/// @return IoError as AtomicFile::create, or if there is not the room
Status check_writable(const std::filesystem::path& path, int64_t num_bytes = 0);

/// Writes a small file in one call.
Status write_file(const std::filesystem::path& path, std::string_view text);

}  // namespace vsa::io
