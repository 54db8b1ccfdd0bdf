// A progress bar with the time left, on a terminal only. Host-only.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace vsa::cli {

/// Draws `label [####....] 42 % done/total, 12 s left` on stderr, at most ten times a second, and
/// wipes it when it ends. Writes nothing if stderr is not a terminal.
class ProgressBar {
 public:
  ProgressBar();
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// A new label starts the clock again. total >= 1; done counts from 0 to total.
  /// @param detail  shown behind the numbers; may change with every call
  void update(const std::string& label, int64_t done, int64_t total,
              const std::string& detail = "");
  /// Wipes the line, so that something else can be printed.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  bool on_terminal_ = false;
  bool drawn_ = false;
  std::string label_;
  int64_t first_done_ = 0;
  Clock::time_point start_;
  Clock::time_point last_drawn_;
};

/// "8 s", "3 min 20 s", "1 h 05 min".
std::string format_duration(double seconds);

}  // namespace vsa::cli
