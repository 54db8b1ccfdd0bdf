// Compares the files of a command. Host-only.
#include "cli/common/named_path.h"

#include <fmt/format.h>

#include <map>

#include "cli/common/failure.h"

namespace vsa::cli {

namespace fs = std::filesystem;

void check_distinct(const std::vector<NamedPath>& files) {
  std::map<fs::path, std::string> options;
  for (const auto& [option, path] : files) {
    if (path.empty()) continue;
    // A link as the last part is replaced when the file is written, so it is a file of its own.
    std::error_code ignored;  // a folder that is not there is reported by whoever opens the file
    const fs::path folder =
        fs::weakly_canonical(fs::absolute(path, ignored).parent_path(), ignored);
    const auto [other, is_new] = options.emplace(folder / path.filename(), option);
    if (!is_new) {
      fail_usage(fmt::format("{}: expected another file than {}, got {}", option, other->second,
                             path.string()));
    }
  }
}

}  // namespace vsa::cli
