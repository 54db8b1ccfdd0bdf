// Lower case of ASCII letters, whatever the locale. Host-only.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>

namespace vsa::io {

/// Other characters, those of UTF-8 included, stay as they are.
constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

inline std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) { return lower(c); });
  return text;
}

/// What the name of a file ends with, from its last point on: ".mp4" for "A.MP4".
inline std::string lower_extension(const std::filesystem::path& path) {
  return lower(path.extension().string());
}

}  // namespace vsa::io
