// SHA-256 of a file, for reports and `verify`. Host-only.
#pragma once

#include <atomic>
#include <filesystem>
#include <span>
#include <string>

#include "vsa/status.h"

namespace vsa::io {

/// 64 lower-case hexadecimal digits.
std::string sha256(std::span<const std::byte> bytes);

/// Of a file's content. Reads it once; its pages do not stay resident.
/// @param cancel  set it to stop within 16 MiB; may be null
/// @return IoError if the file cannot be read | Cancelled
Result<std::string> sha256_of_file(const std::filesystem::path& path,
                                   const std::atomic<bool>* cancel = nullptr);

}  // namespace vsa::io
