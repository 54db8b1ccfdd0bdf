// `vsa verify`: checks the files of a model, and compares them with a list of SHA-256.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/common/command.h"
#include "cli/common/failure.h"
#include "cli/common/find_model.h"
#include "cli/common/model_options.h"
#include "cli/common/output.h"
#include "cli/common/progress.h"
#include "cli/verify/sums_file.h"
#include "runtime/dit/weights.h"
#include "runtime/fill_report.h"
#include "runtime/io/finite.h"
#include "runtime/text/umt5_weights.h"
#include "runtime/vae/weights.h"
#include "runtime/video/metadata.h"

namespace vsa::cli {
namespace {

namespace fs = std::filesystem;

struct VerifyCommand {
  std::string path, sums;
  ModelChoiceOptions choice;
  bool metadata = false;
  bool json = false;
};

/// The files to hash, and the folder that their names are relative to.
struct ModelFiles {
  fs::path root;
  std::vector<fs::path> paths;
};

/// Fails unless every tensor of the model is there, in its shape.
void check_weights(const runtime::ModelFolder& model, const io::Checkpoint& text,
                   const io::Checkpoint& transformer) {
  nn::LoadSummary summary;
  check(text.in_file(text::find_umt5_weights(model.text_encoder, text, summary).status()));
  dit::LoadReport report;
  check(transformer.in_file(dit::find_weights(model.transformer, transformer, report).status()));
}

/// Opens what is there, which checks configuration, tokenizer, headers and index.
ModelFiles open_model(const fs::path& path, const runtime::ModelChoice& choice) {
  std::error_code ignored;  // what cannot be looked at is reported when it is opened
  if (fs::is_directory(path, ignored) && fs::exists(path / "model_index.json", ignored)) {
    const auto model = take(runtime::ModelFolder::open(path, choice));
    take(model.open_tokenizer());
    const auto text = take(model.open_text_encoder());
    const auto transformer = take(model.open_transformer());
    std::vector<const io::Checkpoint*> weights{&text, &transformer};
    std::optional<io::Checkpoint> decoder;
    if (model.vae) weights.push_back(&decoder.emplace(take(model.open_vae())));
    check_weights(model, text, transformer);
    if (decoder) {
      vae::LoadReport report;
      check(decoder->in_file(
          vae::find_weights(*model.vae, vae::Half::kDecoder, *decoder, report).status()));
    }
    for (const io::Checkpoint* part : weights) {
      check(part->in_file(io::check_finite(*part, "weights")));
    }
    for (const std::string& warning : model.warnings) note("warning: " + warning);
    return {.root = path, .paths = runtime::model_files(model, weights)};
  }
  const auto weights = take(io::Checkpoint::open(path, choice.variant));
  check(weights.in_file(io::check_finite(weights, "weights")));
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

/// How a video, picture or latents file was made, as it says itself. Its contents decide what it
/// is, not its name.
std::string made_by(const fs::path& path) {
  if (video::is_file_of_metadata(path)) return take(video::read_metadata(path)).comment;
  const auto file = take(io::SafetensorsFile::open(path));
  const auto found = file.metadata().find("vsa.made_by");
  return found == file.metadata().end() ? std::string() : found->second;
}

void print_made_by(const fs::path& path) {
  const auto document = nlohmann::ordered_json::parse(made_by(path), nullptr, false);
  if (document.is_discarded()) {
    throw Failure(ExitCode::kFailed,
                  fmt::format("{}: expected metadata of vsa, got none", path.string()));
  }
  print_json(document);
}

/// The path, or the folder of the model of that name.
fs::path path_of(const std::string& name) {
  std::error_code ignored;  // what cannot be looked at is reported when it is opened
  return fs::exists(name, ignored) || fs::path(name).filename() != name ? fs::path(name)
                                                                        : find_model("model", name);
}

void run(const VerifyCommand& command) {
  if (command.metadata) {
    print_made_by(command.path);
    return;
  }
  Sums expected;
  if (!command.sums.empty()) expected = read_sums(command.sums);
  const ModelFiles model = open_model(path_of(command.path), command.choice.to_runtime());
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
      *app.add_subcommand("verify", "check a model's files and print their SHA-256");
  add_text(
      command,
      {.names = "model",
       .kind = kPathKind,
       .help = "model folder or name, safetensors file, or index of several; with --metadata an "
               "mp4, gif, png or latents file"},
      options->path)
      .required();
  add_text(command,
           {.names = "--sums",
            .kind = kFileKind,
            .help = "compare with this list: what `vsa verify` printed, or the report of a run"},
           options->sums);
  options->choice.add_to(command);
  add_flag(command, "--metadata", options->metadata,
           "instead, print how a video, picture or latents file was made, as JSON");
  add_example(command, "vsa verify models/wan-toy --sums wan-toy.sha256");
  add_json_option(command, options->json);
  command.callback([options] { run(*options); });
}

}  // namespace vsa::cli
