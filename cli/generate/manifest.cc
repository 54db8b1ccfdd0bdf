// Reads the manifest of a batch, and appends finished videos. Host-only.
#include "cli/generate/manifest.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>
#include <string_view>
#include <utility>

#include "cli/common/failure.h"
#include "cli/common/text_file.h"

namespace vsa::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// One line; what is not UTF-8, as paths may be, is replaced by U+FFFD.
std::string dump(const Json& document) {
  return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// The value as it comes back from a file.
Json as_read(const Json& value) { return Json::parse(dump(value)); }

bool is_record(const Json& line) {
  const auto holds = [&](const char* key, bool (Json::*is_kind)() const) {
    return line.contains(key) && (line[key].*is_kind)();
  };
  return line.is_object() && holds("settings", &Json::is_object) &&
         holds("seed", &Json::is_number_integer) &&
         std::ranges::all_of(
             std::initializer_list<const char*>{"name", "prompt", "negative_prompt", "video"},
             [&](const char* key) { return holds(key, &Json::is_string); });
}

/// Whether a line is the beginning of a record, cut short by a full disk or a crash.
bool begins_as_record(std::string_view line) {
  constexpr std::string_view kStart = R"({"name":)";
  return line.starts_with(kStart) || kStart.starts_with(line);
}

/// One write at the end of the file: processes that run side by side do not mix their lines.
void append(const fs::path& path, std::string line) {
  const auto fail = [&](const char* why) {
    throw Failure(ExitCode::kInputOutput,
                  fmt::format("--manifest {}: cannot write: {}", path.string(), why));
  };
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd < 0) fail(std::strerror(errno));
  // A line that was cut short is ended first, so that it does not swallow this one.
  char last = '\n';
  const off_t size = ::lseek(fd, 0, SEEK_END);
  if (size > 0 && ::pread(fd, &last, 1, size - 1) == 1 && last != '\n') line.insert(0, 1, '\n');
  const ssize_t written = ::write(fd, line.data(), line.size());
  const int write_error = written < 0 ? errno : written < std::ssize(line) ? ENOSPC : 0;
  const int close_error = ::close(fd) == 0 ? 0 : errno;
  if (write_error != 0 || close_error != 0) {
    fail(std::strerror(write_error != 0 ? write_error : close_error));
  }
}

}  // namespace

Json batch_settings(const SamplingOptions& sampling, const OutputOptions& output) {
  Json settings = {{"model", sampling.model},
                   {"attention", sampling.attention},
                   {"dense_steps", sampling.dense_steps},
                   {"backend", sampling.backend.backend}};
  const auto add = [&](const char* key, const auto& value) {
    if (value) settings[key] = *value;
  };
  const VideoSettings& video = sampling.video;
  const ModelChoiceOptions& choice = sampling.choice;
  for (const auto& [key, text] : {std::pair{"variant", choice.variant},
                                  {"transformer", choice.transformer},
                                  {"vae", choice.vae},
                                  {"scheduler", sampling.scheduler},
                                  {"text_encoder", choice.text_encoder}}) {
    if (!text.empty()) settings[key] = text;
  }
  add("shift", sampling.shift);
  if (!sampling.loras.empty()) settings["loras"] = sampling.loras;
  add("steps", video.steps);
  add("frames", video.frames);
  if (video.size) settings["size"] = {{"width", video.size->width}, {"height", video.size->height}};
  add("guidance", video.guidance);
  add("fps", video.fps);
  add("sparsity", video.keep.as_sparsity());
  add("topk", video.keep.topk);
  if (sampling.tiling.order != TilingOptions{}.order) settings["order"] = sampling.tiling.order;
  add("best_tile_of", sampling.tiling.best_tile_of);
  if (const auto tile = sampling.tiling.edges()) settings["tile"] = to_text(*tile);
  if (!sampling.dense_layers.empty()) settings["dense_layers"] = sampling.dense_layers;
  if (output.scale != 1) settings["upscale"] = output.scale;
  if (output.no_metadata) settings["no_metadata"] = true;
  return as_read(settings);
}

Manifest::Manifest(fs::path path, Json settings)
    : path_(std::move(path)), settings_(std::move(settings)) {
  std::error_code ignored;  // a path that cannot be examined fails in `add`, with the reason
  if (!fs::exists(path_, ignored)) return;
  std::istringstream file(read_text_file("--manifest", path_));
  for (std::string line; std::getline(file, line);) {
    const Json record = Json::parse(line, nullptr, false);
    if (!is_record(record)) {
      if (record.is_discarded() && begins_as_record(line)) continue;
      throw Failure(ExitCode::kInputOutput,
                    fmt::format("--manifest {}: expected lines that `vsa generate --batch` wrote, "
                                "got another file",
                                path_.string()),
                    "name another manifest");
    }
    if (record["settings"] != settings_) {
      fail_usage(fmt::format("--manifest {}: made with other settings: {}", path_.string(),
                             dump(record["settings"])),
                 "name another manifest, or remove this one");
    }
    finished_[record["name"]] = record;
  }
}

bool Manifest::has(const BatchEntry& entry, const fs::path& video) const {
  const auto it = finished_.find(entry.name);
  if (it == finished_.end()) return false;
  const Json& record = it->second;
  const bool frames = video.filename().string().find('%') != std::string::npos;
  const bool same_seed = entry.seed < 0 || record["seed"] == entry.seed;
  std::error_code ignored;  // a path that cannot be examined fails when it is written
  return record["prompt"] == entry.prompt && same_seed &&
         record["negative_prompt"] == entry.negative_prompt &&
         record.value("own_settings", Json::object()) == entry.own &&
         record["video"] == as_read(video.string()) &&
         fs::exists(frames ? video.parent_path() : video, ignored);
}

void Manifest::add(const BatchEntry& entry, const OutputPaths& paths,
                   const runtime::GenerateReport& report) const {
  append(path_, dump({{"name", entry.name},
                      {"prompt", entry.prompt},
                      {"negative_prompt", entry.negative_prompt},
                      {"seed", report.seed},
                      {"video", paths.video.string()},
                      {"total_ms", report.total_ms},
                      {"denoise_ms", report.denoise_ms},
                      {"kept_share", report.kept_share},
                      {"settings", settings_},
                      {"own_settings", entry.own},
                      {"entry", entry.fields}}) +
                    "\n");
}

}  // namespace vsa::cli
