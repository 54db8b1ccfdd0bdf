// Looks for a model in the folders of VSA_MODELS and those of this program. Host-only.
#include "cli/common/find_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <sstream>
#include <vector>

#include "cli/common/failure.h"

namespace vsa::cli {
namespace {

namespace fs = std::filesystem;

bool is_folder(const fs::path& path) {
  std::error_code ignored;  // what cannot be looked at is no folder either
  return fs::is_directory(path, ignored);
}

/// Folders that hold models by their names.
std::vector<fs::path> model_folders() {
  std::vector<fs::path> folders;
  if (const char* named = std::getenv("VSA_MODELS"); named != nullptr) {
    std::istringstream list(named);
    for (std::string folder; std::getline(list, folder, ':');) {
      if (!folder.empty()) folders.emplace_back(folder);
    }
  }
  std::error_code failed;  // without /proc, this program does not know where it is
  const fs::path program = fs::read_symlink("/proc/self/exe", failed);
  if (!failed) {
    folders.push_back((program.parent_path() / VSA_MODELS_FROM_PROGRAM).lexically_normal());
  }
  return folders;
}

}  // namespace

fs::path find_model(const std::string& what, const std::string& name) {
  constexpr const char* kRemedy = "VSA_MODELS names folders of models";
  if (name.empty()) {
    fail_usage(fmt::format("{}: expected a folder or the name of a model, got nothing", what),
               kRemedy);
  }
  if (is_folder(name)) return name;
  std::error_code ignored;  // what cannot be looked at is not there
  if (fs::exists(name, ignored)) {
    throw Failure(ExitCode::kInputOutput,
                  fmt::format("{} {}: expected a model's folder, got a file", what, name),
                  "--transformer, --vae and --text-encoder take parts of a model from files");
  }
  std::vector<std::string> looked = {name};
  if (fs::path(name).filename() == name) {
    for (const fs::path& folder : model_folders()) {
      if (is_folder(folder / name)) return folder / name;
      looked.push_back((folder / name).string());
    }
  }
  throw Failure(ExitCode::kInputOutput, fmt::format("{} {}: no such folder", what, name),
                fmt::format("vsa looked for {}; {}", fmt::join(looked, ", "), kRemedy));
}

}  // namespace vsa::cli
