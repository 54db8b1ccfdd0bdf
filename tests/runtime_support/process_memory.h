// Memory of the test's own process.
#pragma once

#include <malloc.h>

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>

namespace vsa::test {

/// Why peaks cannot be measured here, if so.
inline std::optional<std::string> why_memory_is_not_measured() {
#ifdef __SANITIZE_ADDRESS__
  return "the sanitizer keeps freed memory";
#else
  if (!std::ofstream("/proc/self/clear_refs")) return "no /proc/self/clear_refs";
  return {};
#endif
}

/// A value of /proc/self/status in bytes.
inline int64_t process_memory(const std::string& key) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key + ":")) return std::stoll(line.substr(key.size() + 1)) * 1024;
  }
  return -1;
}

/// Gives free memory back to the system, starts the high-water mark VmHWM anew, and returns what
/// the process has.
inline int64_t restart_peak_memory() {
  malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5";
  return process_memory("VmRSS");
}

}  // namespace vsa::test
