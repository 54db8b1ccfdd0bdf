#include "cli/common/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "cli/common/output.h"

namespace vsa::cli {
namespace {

constexpr int64_t kBarCells = 30;
constexpr std::chrono::milliseconds kRedraw{100};

}  // namespace

std::string format_duration(double seconds) {
  const auto s = static_cast<int64_t>(std::ceil(std::max(0.0, seconds)));
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {:02} s", s / 60, s % 60);
  return fmt::format("{} h {:02} min", s / 3600, s % 3600 / 60);
}

ProgressBar::ProgressBar() : on_terminal_(::isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() { clear(); }

void ProgressBar::clear() {
  if (drawn_) write_stderr("\r\033[K");
  drawn_ = false;
}

void ProgressBar::update(const std::string& label, int64_t done, int64_t total,
                         const std::string& detail) {
  if (!on_terminal_) return;
  const Clock::time_point now = Clock::now();
  if (label != label_) {
    label_ = label;
    first_done_ = done;
    start_ = now;
    last_drawn_ = {};
  }
  if (now - last_drawn_ < kRedraw && done < total) return;
  last_drawn_ = now;
  const int64_t cells = std::clamp<int64_t>(done * kBarCells / total, 0, kBarCells);
  std::string line = fmt::format("{} [{:#<{}}{:.<{}}] {:3} % {}/{}", label, "", cells, "",
                                 kBarCells - cells, done * 100 / total, done, total);
  if (!detail.empty()) line += ", " + detail;
  if (done > first_done_ && done < total) {
    const double elapsed = std::chrono::duration<double>(now - start_).count();
    const double left =
        elapsed * static_cast<double>(total - done) / static_cast<double>(done - first_done_);
    line += ", " + format_duration(left) + " left";
  }
  write_stderr("\r\033[K" + line);
  drawn_ = true;
}

}  // namespace vsa::cli
