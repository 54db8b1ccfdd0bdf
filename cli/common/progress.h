// How far long work is, with the time left. Host-only.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace vsa::cli {

/// Shows progress on stderr.
/// - On a terminal: one line, `label [####....] 42 % done/total, detail, 12 s left`, drawn again at
///   most ten times a second, cut to the terminal's width (as it is then, or COLUMNS if that is
///   less), and wiped at the end.
/// - Elsewhere, and if TERM is "dumb" or NO_COLOR is set: plain lines without escapes,
///   `label: detail, 12 s left`; one a step, and one if nothing was printed for ten seconds.
/// What cannot be written is dropped: the work matters more.
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
  /// Says that a step was finished: a plain line. Of more than 100 steps, at most one a second.
  void finish_step(int64_t num_steps);
  /// Wipes the line, so that something else can be printed.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;

  void draw() const;
  void print_line();
  std::string time_left() const;

  bool redraws_ = false;
  bool drawn_ = false;
  // The state at the last update.
  std::string label_, detail_;
  int64_t done_ = 0, total_ = 1;
  int64_t first_done_ = 0;
  Clock::time_point start_;
  Clock::time_point last_shown_;
};

/// "8 s", "3 min 20 s", "1 h 05 min".
std::string format_duration(double seconds);

}  // namespace vsa::cli
