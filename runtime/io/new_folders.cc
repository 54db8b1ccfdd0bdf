// The folders that a path lacks.
#include "runtime/io/new_folders.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace vsa::io {

namespace fs = std::filesystem;

Result<NewFolders> NewFolders::make(const fs::path& folder) {
  NewFolders result;
  fs::path so_far;
  for (const fs::path& part : folder) {
    so_far /= part;
    if (::mkdir(so_far.c_str(), 0777) == 0) {
      result.made_.push_back(so_far);
      continue;
    }
    const int error = errno;
    struct stat info {};
    // mkdir may say "read-only" or "not permitted" of a folder that is there.
    if (::stat(so_far.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) continue;
    return io_error(fmt::format("[write_file] {}: expected a folder that can be made, got: {}",
                                so_far.string(),
                                error == EEXIST ? "a file of that name" : std::strerror(error)));
  }
  return result;
}

NewFolders::NewFolders(NewFolders&& other) noexcept : made_(std::exchange(other.made_, {})) {}

NewFolders& NewFolders::operator=(NewFolders&& other) noexcept {
  made_.swap(other.made_);
  return *this;
}

NewFolders::~NewFolders() {
  // rmdir refuses a folder that somebody has put something into.
  for (; !made_.empty(); made_.pop_back()) ::rmdir(made_.back().c_str());
}

fs::path nearest_existing(const fs::path& folder) {
  std::error_code ignored;  // what cannot be looked at counts as there, and fails when it is used
  fs::path nearest = folder;
  while (fs::status(nearest, ignored).type() == fs::file_type::not_found) {
    nearest = nearest.has_parent_path() ? nearest.parent_path() : fs::path(".");
  }
  return nearest;
}

}  // namespace vsa::io
