// How much memory and how many processors this process may use.
#include "runtime/system/limits.h"

#include <omp.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>

#include "runtime/system/control_groups.h"
#include "vsa/backend.h"

namespace vsa::system {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

/// A whole number of at least 0; nothing for "max", "unlimited" and -1. What is beyond int64 is no
/// limit either: version 1 writes 2^63 rounded down to a page.
std::optional<int64_t> number(const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data() || value < 0) return {};
  return value;
}

std::optional<int64_t> number_in(const fs::path& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return number(word);
}

/// The words behind the first one of the line that starts with `key`.
std::string value_in(const fs::path& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const size_t start = line.find_first_not_of(" \t:", key.size());
    // "inactive_file" must not be found as the start of "inactive_file_pages".
    if (start != key.size() && start != line.npos) return line.substr(start);
  }
  return {};
}

std::optional<int64_t> kib_in(const fs::path& path, const std::string& key) {
  const auto value = number(value_in(path, key));
  return value ? std::optional(*value * 1024) : std::nullopt;
}

/// a + b, where both may be without limit.
int64_t sum(int64_t a, int64_t b) { return a > kUnlimited - b ? kUnlimited : a + b; }

/// What `limit` leaves beside `used`; no limit without one.
int64_t left(const std::optional<int64_t>& limit, int64_t used) {
  return limit ? std::max(int64_t{0}, *limit - used) : kUnlimited;
}

int64_t left_of_group_2(const fs::path& group, int64_t free_swap) {
  const auto current = number_in(group / "memory.current");
  if (!current) return kUnlimited;
  const int64_t reclaimable = number(value_in(group / "memory.stat", "inactive_file")).value_or(0);
  const int64_t used = std::max(int64_t{0}, *current - reclaimable);
  const int64_t memory = std::min(left(number_in(group / "memory.max"), used),
                                  left(number_in(group / "memory.high"), used));
  const int64_t swap = left(number_in(group / "memory.swap.max"),
                            number_in(group / "memory.swap.current").value_or(0));
  return sum(memory, std::min(swap, free_swap));
}

int64_t left_of_group_1(const fs::path& group, int64_t free_swap) {
  const int64_t reclaimable =
      number(value_in(group / "memory.stat", "total_inactive_file")).value_or(0);
  const auto unreclaimable = [&](const char* file) {
    return std::max(int64_t{0}, number_in(group / file).value_or(0) - reclaimable);
  };
  const int64_t memory =
      left(number_in(group / "memory.limit_in_bytes"), unreclaimable("memory.usage_in_bytes"));
  const int64_t both = left(number_in(group / "memory.memsw.limit_in_bytes"),
                            unreclaimable("memory.memsw.usage_in_bytes"));
  return std::min(sum(memory, free_swap), both);
}

/// What a line of /proc/self/limits leaves: NAME, two or more spaces, SOFT, HARD, UNITS.
int64_t left_of_process(const fs::path& root, const std::string& name, const std::string& used) {
  const fs::path self = root / "proc/self";
  std::istringstream columns(value_in(self / "limits", name));
  std::string soft;
  columns >> soft;
  return left(number(soft), kib_in(self / "status", used).value_or(0));
}

/// Processors in a list such as "0-3,8".
int count_of_list(const std::string& list) {
  int count = 0;
  std::istringstream ranges(list);
  for (std::string range; std::getline(ranges, range, ',');) {
    const auto first = number(range);
    if (!first) continue;
    const size_t dash = range.find('-');
    const auto last = dash == range.npos ? first : number(range.substr(dash + 1));
    if (last && *last >= *first) count += static_cast<int>(*last - *first + 1);
  }
  return count;
}

/// Processors that a quota of time is worth, rounded up: a part of one still needs a thread.
int of_quota(const std::optional<int64_t>& quota_us, const std::optional<int64_t>& period_us) {
  if (!quota_us || !period_us || *period_us == 0) return std::numeric_limits<int>::max();
  return static_cast<int>(std::max(int64_t{1}, (*quota_us + *period_us - 1) / *period_us));
}

int quota_of_group(const fs::path& group, bool version_2) {
  if (!version_2) {
    return of_quota(number_in(group / "cpu.cfs_quota_us"), number_in(group / "cpu.cfs_period_us"));
  }
  std::ifstream file(group / "cpu.max");
  std::string quota, period;
  file >> quota >> period;
  return of_quota(number(quota), number(period));
}

}  // namespace

int64_t available_memory_bytes(const fs::path& root) {
  const fs::path meminfo = root / "proc/meminfo";
  const int64_t free_swap = kib_in(meminfo, "SwapFree").value_or(0);
  int64_t least = sum(kib_in(meminfo, "MemAvailable").value_or(kUnlimited), free_swap);
  for (const ControlGroupPath& path : control_groups(root, "memory")) {
    for (const fs::path& group : path.folders) {
      least = std::min(least, path.version_2 ? left_of_group_2(group, free_swap)
                                             : left_of_group_1(group, free_swap));
    }
  }
  return std::min({least, left_of_process(root, "Max address space", "VmSize"),
                   left_of_process(root, "Max data size", "VmData")});
}

int available_processors(const fs::path& root) {
  int least = count_of_list(value_in(root / "proc/self/status", "Cpus_allowed_list"));
  if (least == 0) least = omp_get_num_procs();
  for (const ControlGroupPath& path : control_groups(root, "cpu")) {
    for (const fs::path& group : path.folders) {
      least = std::min(least, quota_of_group(group, path.version_2));
    }
  }
  return std::max(1, least);
}

int default_num_threads() {
  // If the user set OMP_NUM_THREADS, libgomp has read it, and it holds.
  const char* said = std::getenv("OMP_NUM_THREADS");
  if (said != nullptr && *said != '\0') return omp_get_max_threads();
  // Once, as libgomp does: limits seldom change, calls are many.
  static const int processors = std::min(available_processors(), kMaxThreads);
  return processors;
}

}  // namespace vsa::system
