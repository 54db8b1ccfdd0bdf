#include "cli/generate/batch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/common/failure.h"
#include "cli/common/output.h"
#include "cli/generate/batch_file.h"
#include "runtime/io/new_folders.h"

namespace vsa::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

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

/// What decides how a video looks, besides the entry: two runs with the same
/// settings may share a manifest.
Json settings_json(const SamplingOptions& sampling) {
  Json settings = {{"model", sampling.model},
                   {"attention", sampling.attention},
                   {"dense_steps", sampling.dense_steps},
                   {"backend", sampling.backend.backend}};
  const auto add = [&](const char* key, const auto& value) {
    if (value) settings[key] = *value;
  };
  add("steps", sampling.steps);
  add("frames", sampling.frames);
  add("size", sampling.size);
  add("guidance", sampling.guidance);
  add("sparsity", sampling.sparsity);
  add("topk", sampling.topk);
  add("tile", sampling.tile);
  add("dense_layers", sampling.dense_layers);
  return settings;
}

/// The manifest: one JSON object a line, added to when a video is complete.
class Manifest {
 public:
  Manifest(fs::path path, const Json& settings) : path_(std::move(path)), settings_(settings) {
    std::ifstream file(path_);
    for (std::string line; std::getline(file, line);) {
      const bool is_whole = !file.eof();  // it ended with a new line
      const Json record = Json::parse(line, nullptr, false);
      const bool is_ours = record.is_object() && record.contains("name") &&
                           record.contains("settings") && record.contains("video");
      if (!is_ours) {
        if (!is_whole) continue;  // cut short by a full disk or a crash
        throw Failure(
            ExitCode::kInputOutput,
            fmt::format("--manifest {}: expected lines that `vsa generate --batch` wrote, "
                        "got another file",
                        path_.string()),
            "name another manifest");
      }
      if (record.value("settings", Json()) != settings_) {
        fail_usage(fmt::format("--manifest {}: made with other settings: {}", path_.string(),
                               record.value("settings", Json()).dump()),
                   "name another manifest, or remove this one");
      }
      finished_[record["name"]] = record;
    }
  }

  /// Whether that very video was made and is still there.
  bool has(const BatchEntry& entry, const fs::path& video) const {
    const auto it = finished_.find(entry.name);
    if (it == finished_.end()) return false;
    const bool frames = video.filename().string().find('%') != std::string::npos;
    return it->second["prompt"] == entry.prompt && it->second["seed"] == entry.seed &&
           it->second["negative_prompt"] == entry.negative_prompt &&
           it->second["video"] == video.string() &&
           fs::exists(frames ? video.parent_path() : video);
  }

  void add(const BatchEntry& entry, const OutputPaths& paths,
           const runtime::GenerateReport& report) {
    Json record = {{"name", entry.name},
                   {"prompt", entry.prompt},
                   {"negative_prompt", entry.negative_prompt},
                   {"seed", report.seed},
                   {"video", paths.video.string()},
                   {"total_ms", report.total_ms},
                   {"denoise_ms", report.denoise_ms},
                   {"kept_share", report.kept_share},
                   {"settings", settings_},
                   {"entry", entry.fields}};
    append(record.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  }

 private:
  /// One write at the end of the file: parts that run side by side do not mix
  /// their lines.
  void append(std::string line) const {
    const int fd = ::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    // A line that was cut short is ended first, so that it does not swallow this one.
    char last = '\n';
    const off_t size = fd >= 0 ? ::lseek(fd, 0, SEEK_END) : 0;
    if (size > 0 && ::pread(fd, &last, 1, size - 1) == 1 && last != '\n') line.insert(0, 1, '\n');
    const bool written = fd >= 0 && ::write(fd, line.data(), line.size()) == std::ssize(line);
    const int error = errno;
    const bool closed = fd < 0 || ::close(fd) == 0;
    if (!written || !closed) {
      throw Failure(ExitCode::kInputOutput, fmt::format("--manifest {}: cannot write: {}",
                                                        path_.string(), std::strerror(error)));
    }
  }

  fs::path path_;
  Json settings_;
  std::map<std::string, Json> finished_;
};

/// Entries i of `entries` with i % parts == part - 1.
std::vector<BatchEntry> part_of(const std::vector<BatchEntry>& entries, const std::string& part) {
  const size_t slash = part.find('/');
  const std::string expected = "I/N with I from 1 to N";
  if (slash == std::string::npos) {
    fail_usage(fmt::format("--part: expected {}, got {}", expected, part));
  }
  const int64_t i = parse_integers("--part", part.substr(0, slash), 1, 1, expected)[0];
  const int64_t n = parse_integers("--part", part.substr(slash + 1), 1, 1, expected)[0];
  if (i > n) fail_usage(fmt::format("--part: expected {}, got {}", expected, part));
  std::vector<BatchEntry> chosen;
  for (size_t at = static_cast<size_t>(i - 1); at < entries.size(); at += static_cast<size_t>(n)) {
    chosen.push_back(entries[at]);
  }
  return chosen;
}

/// Where the results of one entry go.
OutputPaths paths_of(const OutputOptions& output, const std::string& name) {
  OutputOptions named = output;
  named.video = with_name(output.video, name);
  for (std::string* path : {&named.contact_sheet, &named.report, &named.latents}) {
    *path = with_name(*path, name);
  }
  return named.paths();
}

}  // namespace

void BatchOptions::add_to(CLI::App& command) {
  command.add_option("--batch", file,
                     "generate every prompt of FILE.json or .jsonl; {name} in -o is its name");
  command.add_option("--manifest", manifest,
                     "with --batch: list of finished videos; default: "
                     "manifest.jsonl beside them");
  command.add_option("--part", part, "with --batch: I/N makes every N-th video, from the I-th")
      ->capture_default_str();
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
  const std::vector<BatchEntry> entries = part_of(
      read_batch(batch.file, sampling.negative_prompt, sampling.seed < 0 ? 0 : sampling.seed),
      batch.part);
  runtime::GenerateOptions options = sampling.to_runtime();
  const fs::path folder = folder_of(output.video);
  const fs::path manifest_path =
      batch.manifest.empty() ? folder / "manifest.jsonl" : fs::path(batch.manifest);
  Manifest manifest(manifest_path, settings_json(sampling));
  take(io::NewFolders::make(manifest_path.parent_path())).keep();

  const InterruptScope interrupt;
  ProgressBar bar;
  std::set<std::string> warned;
  int64_t skipped = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    const BatchEntry& entry = entries[i];
    interrupt.check();
    if (manifest.has(entry, with_name(output.video, entry.name))) {
      ++skipped;
      continue;
    }
    options.prompt = entry.prompt;
    options.negative_prompt = entry.negative_prompt;
    options.seed = entry.seed;
    const OutputPaths paths = paths_of(output, entry.name);
    runtime::GenerateReport report;
    generate_to_files({.options = options,
                       .paths = paths,
                       .label = fmt::format("{}/{} {} ", i + 1, entries.size(), entry.name)},
                      bar, interrupt, report);
    for (const std::string& warning : report.warnings) {
      if (warned.insert(warning).second) note("warning: " + warning);
    }
    manifest.add(entry, paths, report);
    print_json_line({{"name", entry.name},
                     {"seed", report.seed},
                     {"video", paths.video.string()},
                     {"total_ms", report.total_ms}});
  }
  note(fmt::format("{} videos made, {} were there already; manifest: {}",
                   static_cast<int64_t>(entries.size()) - skipped, skipped,
                   manifest_path.string()));
}

}  // namespace vsa::cli
