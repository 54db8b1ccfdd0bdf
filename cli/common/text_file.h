// Small text files that the user hands in. Host-only.
#pragma once

#include <filesystem>
#include <string>

namespace vsa::cli {

/// All of a file. Throws Failure(kInputOutput) naming `option` if it cannot be read.
std::string read_text_file(const std::string& option, const std::filesystem::path& path);

}  // namespace vsa::cli
