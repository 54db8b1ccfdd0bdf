// Reads the peak of the resident memory from /proc. Host-only.
#include "cli/bench/peak_memory.h"

#include <malloc.h>

#include <fstream>
#include <string>

namespace vsa::cli {
namespace {

/// A line of /proc/self/status, in bytes.
std::optional<int64_t> status_bytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key)) return std::stoll(line.substr(key.size())) * 1024;
  }
  return std::nullopt;
}

}  // namespace

PeakMemory::PeakMemory() {
  malloc_trim(0);  // memory that was freed before would otherwise hide what is allocated from it
  std::ofstream peak("/proc/self/clear_refs");
  peak << "5" << std::flush;  // resets VmHWM
  if (peak) before_ = status_bytes("VmRSS:");
}

std::optional<int64_t> PeakMemory::extra_bytes() const {
  const auto peak = before_ ? status_bytes("VmHWM:") : std::nullopt;
  if (!peak) return std::nullopt;
  return *peak - *before_;
}

}  // namespace vsa::cli
