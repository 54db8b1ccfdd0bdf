// A list of files and their SHA-256. Host-only.
#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace vsa::cli {

/// Path -> 64 lower-case hexadecimal digits.
using Sums = std::map<std::string, std::string>;

/// Reads lines as sha256sum prints them ("digits  path" or "digits *path"), or the `files` of a
/// JSON document: a report of `vsa generate`, or what `vsa verify --json` printed.
/// Throws Failure(kInputOutput) naming the line or field.
Sums read_sums(const std::filesystem::path& file);

}  // namespace vsa::cli
