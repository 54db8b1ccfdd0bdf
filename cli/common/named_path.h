// The files of one command, which must all be different. Host-only.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace vsa::cli {

/// A file that a command reads or writes, and the option that names it.
struct NamedPath {
  std::string option;
  std::filesystem::path path;  ///< empty: not wanted
};

/// Throws Failure(kUsage) if two options name the same file, however they spell it.
void check_distinct(const std::vector<NamedPath>& files);

}  // namespace vsa::cli
