// A file that appears under its name whole, or not at all. Host-only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "runtime/io/new_folders.h"
#include "vsa/status.h"

namespace vsa::io {

/// A file that this process wrote: its name, and which file it was.
struct WrittenFile {
  std::filesystem::path path;  ///< empty: none
  uint64_t device = 0, inode = 0;

  /// Removes the file if it is still the one that was written; another of that name stays. Fails
  /// silently: what stays behind does no harm.
  void remove() const;
};

/// Writes go to a hidden temporary file in the directory of the final name, which is made if it is
/// missing; commit() puts it in place with one rename. Until then a file already there stays as it
/// is, and on any failure the temporary file and the folders that were made are removed. Only a
/// killed process can leave a file behind (.vsa-*.tmp).
///
/// The first error is kept: later writes do nothing and commit() reports it, so that a writer
/// driven by a library's callbacks need not pass errors through that library.
class AtomicFile {
 public:
  /// @return IoError if `path` is a directory or another special file, if its directory cannot be
  ///         made or written to, or if the name is too long
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
  /// The same, but a file that has the final name keeps it: "a.b" is then "a-2.b", or the next
  /// number that is free, also if other processes look for one at the same time.
  /// @return the file under the name it got, or IoError
  Result<WrittenFile> commit_to_free_name();

 private:
  Status keep(const char* action);
  void flush_directory();
  void discard();

  std::filesystem::path path_;
  std::filesystem::path temporary_;  // empty: nothing to remove
  NewFolders folders_;
  int fd_ = -1;
  int64_t position_ = 0;
  Status status_;
};

/// Finds out before a long run whether a file of that name could be written: creates and removes a
/// temporary file beside it, or in the folder that its own would have to be made in. The name
/// itself is not touched.
/// @param num_bytes  what there has to be room for at least
/// @return IoError as AtomicFile::create, or if there is not the room
Status check_writable(const std::filesystem::path& path, int64_t num_bytes = 0);

/// Writes a small file in one call.
Status write_file(const std::filesystem::path& path, std::string_view text);

}  // namespace vsa::io
