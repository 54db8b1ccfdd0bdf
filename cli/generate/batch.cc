// `vsa generate --batch`: one video for each entry of a file. Host-only.
#include "cli/generate/batch.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/common/failure.h"
#include "cli/common/nearest.h"
#include "cli/common/output.h"
#include "cli/generate/batch_file.h"
#include "cli/generate/manifest.h"
#include "runtime/io/new_folders.h"
#include "runtime/run_plan.h"

namespace vsa::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kName = "{name}";

/// `path` with {name} replaced.
std::string with_name(std::string path, const std::string& name) {
  for (size_t at = path.find(kName); at != std::string::npos; at = path.find(kName, at)) {
    path.replace(at, kName.size(), name);
    at += name.size();
  }
  return path;
}

/// The folder in front of the part that holds {name}.
fs::path folder_of(const std::string& pattern) {
  return fs::path(pattern.substr(0, pattern.find(kName))).parent_path();
}

/// Entries i of `entries` with i % part.of == part.index - 1.
std::vector<BatchEntry> part_of(const std::vector<BatchEntry>& entries, const BatchPart& part) {
  std::vector<BatchEntry> chosen;
  for (auto at = static_cast<size_t>(part.index - 1); at < entries.size();
       at += static_cast<size_t>(part.of)) {
    chosen.push_back(entries[at]);
  }
  return chosen;
}

/// Warns of options that no entry leaves to them, and of fields that only look like settings.
void warn_of_unused(const std::vector<BatchEntry>& entries, const SamplingOptions& sampling,
                    const CLI::App& command) {
  const auto all_have = [&](std::initializer_list<const char*> keys) {
    return std::ranges::all_of(entries, [&](const BatchEntry& entry) {
      return std::ranges::any_of(keys, [&](const char* key) { return entry.fields.contains(key); });
    });
  };
  const auto check = [&](const char* option, bool given, std::initializer_list<const char*> keys) {
    if (given && all_have(keys)) {
      warn(fmt::format("{}: has no effect, as every entry of the batch has its own", option));
    }
  };
  const VideoSettings& video = sampling.video;
  check("--seed", sampling.seed.has_value(), {"seed"});
  check("--negative-prompt", !sampling.negative_prompt.empty(), {"negative_prompt"});
  check("--steps", video.steps.has_value(), {"steps"});
  check("--frames", video.frames.has_value(), {"frames"});
  check("--size", video.size.has_value(), {"size"});
  check("--guidance", video.guidance.has_value(), {"guidance"});
  check("--fps", video.fps.has_value(), {"fps"});
  check("--sparsity, --topk or --keep", video.keep.given(), {"sparsity", "topk", "keep"});

  const std::set<std::string> read = {"prompt", "name", "id", "seed", "negative_prompt"};
  const std::vector<std::string> own_fields = {"prompt", "negative_prompt", "seed",     "steps",
                                               "frames", "guidance",        "sparsity", "size"};
  std::set<std::string> unused;
  std::map<std::string, std::string> near;  // fields that are spelt nearly as one that is read
  for (const BatchEntry& entry : entries) {
    for (const auto& [key, value] : entry.fields.items()) {
      if (read.contains(key) || entry.own.contains(key)) continue;
      if (name_option(command, key + ": ") != key + ": ") {
        unused.insert(key);
      } else if (const auto meant = nearest(key, own_fields)) {
        near.emplace(key, *meant);
      }
    }
  }
  for (const auto& [key, meant] : near) {
    warn(fmt::format("{}: has no effect in an entry; {} is a field that has", key, meant));
  }
  for (const std::string& key : unused) {
    warn(fmt::format("{}: has no effect in an entry: it is an option of the whole batch", key));
  }
}

/// A video that is still to be made.
struct BatchRun {
  size_t number = 0;  ///< counted from 1 among the entries of this part
  const BatchEntry* entry = nullptr;
  runtime::GenerateOptions options;
  OutputPaths paths;
};

/// Where the results of one entry go.
OutputPaths paths_of(const OutputOptions& output, const std::string& name) {
  OutputOptions named = output;
  named.video = with_name(output.video, name);
  for (std::string* path : {&named.contact_sheet, &named.report, &named.latents}) {
    *path = with_name(*path, name);
  }
  return named.paths();
}

std::vector<BatchRun> runs_of(const std::vector<BatchEntry>& entries, const Manifest& manifest,
                              const SamplingOptions& sampling, const OutputOptions& output) {
  const runtime::GenerateOptions common = sampling.to_runtime();
  std::vector<BatchRun> runs;
  for (size_t i = 0; i < entries.size(); ++i) {
    const BatchEntry& entry = entries[i];
    if (manifest.has(entry, with_name(output.video, entry.name))) continue;
    runtime::GenerateOptions options = common;
    entry.video.apply_to(options);
    options.prompt = entry.prompt;
    options.negative_prompt = entry.negative_prompt;
    options.seed = entry.seed;
    runs.push_back({.number = i + 1,
                    .entry = &entry,
                    .options = std::move(options),
                    .paths = paths_of(output, entry.name)});
  }
  return runs;
}

/// Throws Failure if two of the files that the batch reads or writes are the same one.
void check_files(const std::vector<BatchEntry>& entries, const OutputOptions& output,
                 const std::string& list, const fs::path& manifest) {
  std::vector<NamedPath> files = {{"--batch", list}, {"--manifest", manifest}};
  for (const BatchEntry& entry : entries) {
    for (const auto& [option, path] : paths_of(output, entry.name).files()) {
      files.push_back({fmt::format("{} of {}", option, entry.name), path});
    }
  }
  check_distinct(files);
}

/// Throws Failure if the model does not take the settings of a run.
void check_settings(const std::vector<BatchRun>& runs, const std::string& list) {
  for (const BatchRun& run : runs) {
    const Status status = runtime::check_run(run.options);
    if (status.ok()) continue;
    // An option of the command line is named as such; what an entry says is named with the entry.
    const std::string place = run.entry->own.empty()
                                  ? std::string()
                                  : fmt::format("--batch {}: entry {}: ", list, run.entry->name);
    throw Failure(exit_code(status.code()), place + plain(status.message()));
  }
}

}  // namespace

void BatchOptions::add_to(CLI::App& command) {
  app = &command;
  add_text(command,
           {.names = "--batch",
            .kind = kFileKind,
            .help = "make a video of every prompt in FILE.txt (one per line), .json or .jsonl; "
                    "{name} in -o stands for its name"},
           file);
  add_text(command,
           {.names = "--manifest",
            .kind = kFileKind,
            .help = "with --batch: list of finished videos; default: manifest.jsonl beside them"},
           manifest);
  add_value(command,
            {.names = "--part",
             .kind = "I/N",
             .help = "with --batch: every N-th video, from the I-th; default: 1/1"},
            [this](const std::string& option, const std::string& text) {
              const std::string expected = "I/N with I from 1 to N";
              const auto n = parse_list(option, text, expected, {.least = 1}, 2, "/");
              if (n[0] > n[1])
                fail_usage(fmt::format("{}: expected {}, got {}", option, expected, text));
              part = BatchPart{.index = n[0], .of = n[1]};
            });
}

void BatchOptions::warn_of_unused() const {
  if (!file.empty()) return;
  if (!manifest.empty()) warn("--manifest: has no effect without --batch");
  if (part) warn("--part: has no effect without --batch");
}

void run_batch(const SamplingOptions& sampling, const OutputOptions& output,
               const BatchOptions& batch) {
  if (output.video.find(kName) == std::string::npos) {
    fail_usage(fmt::format("-o: expected {{name}} in it for --batch, got {}", output.video),
               "for example -o 'out/{name}.mp4'");
  }
  for (const std::string* path : {&output.contact_sheet, &output.report, &output.latents}) {
    if (!path->empty() && path->find(kName) == std::string::npos) {
      fail_usage(fmt::format("expected {{name}} in every output path for --batch, got {}", *path));
    }
  }
  const std::vector<BatchEntry> all =
      read_batch(batch.file, {.negative_prompt = sampling.negative_prompt, .seed = sampling.seed});
  warn_of_unused(all, sampling, *batch.app);
  const std::vector<BatchEntry> entries = part_of(all, batch.part.value_or(BatchPart{}));
  const fs::path manifest_path = batch.manifest.empty() ? folder_of(output.video) / "manifest.jsonl"
                                                        : fs::path(batch.manifest);
  check_files(entries, output, batch.file, manifest_path);  // before the manifest is read
  const Manifest manifest(manifest_path, batch_settings(sampling, output));
  const std::vector<BatchRun> runs = runs_of(entries, manifest, sampling, output);
  check_settings(runs, batch.file);
  take(io::NewFolders::make(manifest_path.parent_path())).keep();

  const InterruptScope interrupt;
  ProgressBar bar;
  std::set<std::string> warned;
  for (const BatchRun& run : runs) {
    interrupt.check();
    run.paths.check_writable();
    runtime::GenerateReport report;
    generate_to_files(
        {.options = run.options,
         .preview = sampling.preview,
         .paths = run.paths,
         .label = fmt::format("{}/{} {} ", run.number, entries.size(), run.entry->name)},
        bar, interrupt, report);
    for (const std::string& warning : report.warnings) {
      if (warned.insert(warning).second) warn(plain(warning));
    }
    manifest.add(*run.entry, run.paths, report);
    print_json_line({{"name", run.entry->name},
                     {"seed", report.seed},
                     {"video", run.paths.video.string()},
                     {"total_ms", report.total_ms}});
  }
  note(fmt::format("{} videos made, {} were there already; manifest: {}", runs.size(),
                   entries.size() - runs.size(), manifest_path.string()));
}

}  // namespace vsa::cli
