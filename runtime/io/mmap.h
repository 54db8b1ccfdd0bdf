// A file mapped read-only into memory. Host-only.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "vsa/status.h"

namespace vsa::io {

/// Owns one read-only mapping. Pages are read when they are touched, and are shared between
/// processes that map the same file. The file must not be shortened while it is mapped: touching a
/// page past its new end raises SIGBUS.
class MappedFile {
 public:
  /// Maps a whole regular file; an empty file gives no bytes.
  /// @return IoError if the file is missing, unreadable or not a regular file
  static Result<MappedFile> open(const std::filesystem::path& path);

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  /// The address stays the same when the object is moved.
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

/// Drops the whole pages inside `part`, a range of a live mapping, from this process; touching them
/// again reads them from the file. A caller that copies weights into a layout of its own keeps its
/// peak memory near one copy this way.
void release_pages(std::span<const std::byte> part);

}  // namespace vsa::io
