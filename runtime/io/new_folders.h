// The folders that a path lacks. Host-only.
#pragma once

#include <filesystem>
#include <vector>

#include "vsa/status.h"

namespace vsa::io {

/// Makes a folder and the folders above it that are missing. Those it made are removed again at the
/// end, as far as they are empty, unless keep() was called: a run that fails leaves no trace.
class NewFolders {
 public:
  /// @param folder  empty: the current one
  /// @return IoError naming the folder that cannot be made
  static Result<NewFolders> make(const std::filesystem::path& folder);

  NewFolders() = default;
  NewFolders(NewFolders&& other) noexcept;
  NewFolders& operator=(NewFolders&& other) noexcept;
  ~NewFolders();

  void keep() { made_.clear(); }

 private:
  std::vector<std::filesystem::path> made_;  // outermost first
};

/// The folder itself if it is there, or else the innermost one above it that is.
std::filesystem::path nearest_existing(const std::filesystem::path& folder);

}  // namespace vsa::io
