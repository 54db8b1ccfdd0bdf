#include "cli/common/text_file.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>

#include "cli/common/failure.h"

namespace vsa::cli {

std::string read_text_file(const std::string& option, const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file.is_open() || file.bad() || std::filesystem::is_directory(path)) {
    throw Failure(ExitCode::kInputOutput,
                  fmt::format("{} {}: cannot be read", option, path.string()));
  }
  return text;
}

}  // namespace vsa::cli
