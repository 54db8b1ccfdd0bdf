// The most memory that this process holds while something runs. Host-only.
#pragma once

#include <cstdint>
#include <optional>

namespace vsa::cli {

/// Measures from its construction on. One at a time: the system keeps one peak a process.
class PeakMemory {
 public:
  PeakMemory();
  /// The largest resident set since then beyond what was resident then; none where /proc does not
  /// tell or the peak cannot be reset.
  std::optional<int64_t> extra_bytes() const;

 private:
  std::optional<int64_t> before_;
};

}  // namespace vsa::cli
