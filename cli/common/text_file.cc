// Reads small text files. Host-only.
#include "cli/common/text_file.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>

#include "cli/common/failure.h"

namespace vsa::cli {
namespace {

// A million prompts, and a manifest of as many; whatever is longer is another file.
constexpr int64_t kMaxTextBytes = int64_t{256} << 20;

}  // namespace

std::string read_text_file(const std::string& option, const std::filesystem::path& path) {
  const auto fail = [&](const char* why) {
    throw Failure(ExitCode::kInputOutput,
                  fmt::format("{} {}: cannot be read{}", option, path.string(), why));
  };
  std::error_code ignored;  // what cannot be looked at cannot be opened, either
  if (std::filesystem::is_directory(path, ignored)) fail(", a folder");
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open()) fail("");
  // In pieces: what is no regular file, as a pipe, does not tell its size, and /dev/zero has no
  // end.
  std::string text;
  std::string piece(1 << 16, '\0');
  while (file.read(piece.data(), std::ssize(piece)) || file.gcount() > 0) {
    text.append(piece, 0, static_cast<size_t>(file.gcount()));
    if (std::ssize(text) > kMaxTextBytes) fail(", more than 256 MiB");
  }
  if (file.bad()) fail("");
  return text;
}

}  // namespace vsa::cli
