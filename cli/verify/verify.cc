// `vsa verify`: whether the files of a model are sound, and the very ones that were meant.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/common/command.h"
#include "cli/common/failure.h"
#include "cli/common/output.h"
#include "cli/common/progress.h"
#include "cli/verify/sums_file.h"
#include "runtime/fill_report.h"

namespace vsa::cli {
namespace {

namespace fs = std::filesystem;

struct VerifyCommand {
  std::string path, sums;
  bool json = false;
};

/// The files to hash, and the folder that their names are relative to.
struct ModelFiles {
  fs::path root;
  std::vector<fs::path> paths;
};

/// Opens what is there, which checks configuration, headers and index.
ModelFiles open_model(const fs::path& path) {
  std::error_code ignored;  // what cannot be looked at is reported when it is opened
  if (fs::is_directory(path, ignored) && fs::exists(path / "model_index.json", ignored)) {
    const auto model = take(runtime::ModelFolder::open(path));
    const auto text = take(io::Checkpoint::open(model.text_encoder_weights()));
    const auto transformer = take(io::Checkpoint::open(model.transformer_weights()));
    return {.root = path, .paths = runtime::model_files(model, text, transformer)};
  }
  const auto weights = take(io::Checkpoint::open(path));
  return {.root = weights.paths().front().parent_path(), .paths = weights.paths()};
}

/// Fails, naming every file that differs, unless the files are those of the list.
void compare(const std::vector<runtime::FileReport>& files, const Sums& expected,
             const std::string& list) {
  std::vector<std::string> faults;
  Sums missing = expected;
  for (const runtime::FileReport& file : files) {
    const auto found = expected.find(file.path);
    if (found == expected.end()) {
      faults.push_back(file.path + " is not listed");
    } else if (found->second != file.sha256) {
      faults.push_back(fmt::format("{} has SHA-256 {}", file.path, file.sha256));
    }
    missing.erase(file.path);
  }
  for (const auto& [path, sum] : missing) faults.push_back(path + " is missing");
  if (faults.empty()) return;
  throw Failure(ExitCode::kFailed, fmt::format("expected the files of {}, got others: {}", list,
                                               fmt::join(faults, "; ")));
}

void run(const VerifyCommand& command) {
  Sums expected;
  if (!command.sums.empty()) expected = read_sums(command.sums);
  const ModelFiles model = open_model(command.path);
  std::vector<runtime::FileReport> files;
  {
    ProgressBar bar;
    for (const fs::path& path : model.paths) {
      bar.update("verify", std::ssize(files), std::ssize(model.paths), path.filename().string());
      files.push_back(take(runtime::file_report(model.root, path)));
    }
  }
  if (!command.sums.empty()) compare(files, expected, command.sums);
  if (command.json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const runtime::FileReport& file : files) {
      list.push_back({{"path", file.path}, {"bytes", file.bytes}, {"sha256", file.sha256}});
    }
    print_json({{"root", model.root.string()}, {"files", list}});
  } else if (!command.sums.empty()) {
    print_result(fmt::format("{} files, all as in {}\n", files.size(), command.sums));
  } else {
    for (const runtime::FileReport& file : files) {
      print_result(fmt::format("{}  {}\n", file.sha256, file.path));
    }
  }
}

}  // namespace

void add_verify(CLI::App& app) {
  auto options = std::make_shared<VerifyCommand>();
  CLI::App& command =
      *app.add_subcommand("verify", "whether a model's files are sound, and their SHA-256");
  command.add_option("model", options->path, "model folder, safetensors file, or index of several")
      ->required();
  command.add_option("--sums", options->sums,
                     "expect these: a list as `vsa verify` prints it, or a report of a run");
  add_json_option(command, options->json);
  command.callback([options] { run(*options); });
}

}  // namespace vsa::cli
