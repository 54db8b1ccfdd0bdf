#include "cli/generate/batch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
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
  const VideoSettings& video = sampling.video;
  const auto add_text = [&](const char* key, const std::string& value) {
    if (!value.empty()) settings[key] = value;
  };
  add_text("transformer", sampling.choice.transformer);
  add_text("vae", sampling.choice.vae);
  add_text("text_encoder", sampling.choice.text_encoder);
  add_text("scheduler", sampling.scheduler);
  add("shift", sampling.shift);
  if (!sampling.loras.empty()) settings["loras"] = sampling.loras;
  add("steps", video.steps);
  add("frames", video.frames);
  if (video.size) settings["size"] = {{"width", video.size->width}, {"height", video.size->height}};
  add("guidance", video.guidance);
  add("fps", video.fps);
  add("sparsity", video.keep.as_sparsity());
  add("topk", video.keep.topk);
  if (sampling.tile) settings["tile"] = to_text(*sampling.tile);
  if (!sampling.dense_layers.empty()) settings["dense_layers"] = sampling.dense_layers;
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
    const bool same_seed = entry.seed < 0 || it->second["seed"] == entry.seed;
    return it->second["prompt"] == entry.prompt && same_seed &&
           it->second["negative_prompt"] == entry.negative_prompt &&
           it->second.value("own_settings", Json::object()) == entry.own &&
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
                   {"own_settings", entry.own},
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
  std::set<std::string> unused;
  for (const BatchEntry& entry : entries) {
    for (const auto& [key, value] : entry.fields.items()) {
      if (read.contains(key) || entry.own.contains(key)) continue;
      if (name_option(command, key + ": ") != key + ": ") unused.insert(key);
    }
  }
  for (const std::string& key : unused) {
    warn(fmt::format("{}: has no effect in an entry: it is an option of the whole batch", key));
  }
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
  const runtime::GenerateOptions common = sampling.to_runtime();
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
    runtime::GenerateOptions options = common;
    entry.video.apply_to(options);
    options.prompt = entry.prompt;
    options.negative_prompt = entry.negative_prompt;
    options.seed = entry.seed;
    const OutputPaths paths = paths_of(output, entry.name);
    runtime::GenerateReport report;
    generate_to_files({.options = options,
                       .preview = sampling.preview,
                       .paths = paths,
                       .label = fmt::format("{}/{} {} ", i + 1, entries.size(), entry.name)},
                      bar, interrupt, report);
    for (const std::string& warning : report.warnings) {
      if (warned.insert(warning).second) warn(plain(warning));
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
