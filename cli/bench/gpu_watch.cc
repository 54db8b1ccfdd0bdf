// Runs nvidia-smi in a process of its own and summarises its samples. Host-only.
#include "cli/bench/gpu_watch.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <set>
#include <sstream>

namespace vsa::cli {
namespace {

constexpr const char* kQuery =
    "--query-gpu=driver_version,power.limit,clocks_event_reasons.active,power.draw.instant,"
    "clocks.sm,temperature.gpu";
constexpr size_t kNumFields = 6, kFirstNumber = 3;

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields(1);
  for (const char c : line) {
    if (c == ',') {
      fields.emplace_back();
    } else if (c != ' ') {
      fields.back() += c;
    }
  }
  return fields;
}

/// [least, median, most] of those that are numbers; null if none is.
nlohmann::ordered_json range_of(const std::vector<std::string>& texts) {
  std::vector<double> values;
  for (const std::string& text : texts) {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (!text.empty() && *end == '\0') values.push_back(value);
  }
  if (values.empty()) return nullptr;
  std::ranges::sort(values);
  return {values.front(), values[values.size() / 2], values.back()};
}

}  // namespace

GpuWatch::GpuWatch(const std::string& gpu) {
  int ends[2];
  if (gpu.empty() || pipe2(ends, O_CLOEXEC) != 0) return;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  const std::string id = "--id=" + gpu;
  const char* arguments[] = {"nvidia-smi",    kQuery,     "--format=csv,noheader,nounits",
                             "--loop-ms=100", id.c_str(), nullptr};
  if (posix_spawnp(&pid_, arguments[0], &actions, nullptr, const_cast<char**>(arguments),
                   environ) != 0) {
    pid_ = -1;
  }
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  pipe_ = ends[0];
  reader_ = std::thread([this] {
    char buffer[4096];
    for (ssize_t n = 0; (n = read(pipe_, buffer, sizeof buffer)) > 0;) {
      text_.append(buffer, static_cast<size_t>(n));
    }
  });
}

void GpuWatch::stop() {
  if (!reader_.joinable()) return;
  if (pid_ > 0) {
    kill(pid_, SIGTERM);
    waitpid(pid_, nullptr, 0);
  }
  reader_.join();
  close(pipe_);
}

nlohmann::ordered_json GpuWatch::seen() {
  stop();
  std::vector<std::vector<std::string>> columns(kNumFields);
  std::istringstream lines(text_);
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> fields = fields_of(line);
    if (fields.size() != kNumFields) continue;  // a message, or a line that was cut off
    for (size_t i = 0; i < kNumFields; ++i) columns[i].push_back(fields[i]);
  }
  if (columns[0].empty()) return nullptr;
  nlohmann::ordered_json seen = {{"driver", columns[0][0]}, {"power_limit_w", columns[1][0]}};
  seen["clock_reasons"] = std::set<std::string>(columns[2].begin(), columns[2].end());
  const char* names[] = {"power_w", "sm_mhz", "celsius"};
  for (size_t i = 0; i < std::size(names); ++i)
    seen[names[i]] = range_of(columns[kFirstNumber + i]);
  seen["samples"] = columns[0].size();
  return seen;
}

}  // namespace vsa::cli
