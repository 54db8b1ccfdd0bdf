// Draws the progress of long work on a terminal, or prints it as lines. Host-only.
#include "cli/common/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "cli/common/output.h"
#include "cli/common/text_width.h"

namespace vsa::cli {
namespace {

using namespace std::chrono_literals;

constexpr int64_t kMostBarCells = 30;
constexpr int64_t kLeastBarCells = 8;
constexpr int64_t kLeastLabelColumns = 12;
constexpr int64_t kManySteps = 100;
constexpr auto kRedraw = 100ms;
constexpr auto kSilence = 10s;  // of plain lines, at most

bool can_redraw() {
  const char* term = std::getenv("TERM");
  const char* no_color = std::getenv("NO_COLOR");
  return ::isatty(STDERR_FILENO) == 1 && term != nullptr && *term != '\0' &&
         std::string_view(term) != "dumb" && (no_color == nullptr || *no_color == '\0');
}

/// Columns of the terminal, now: it may have been resized.
int64_t terminal_columns() {
  int64_t columns = 0;
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0) columns = size.ws_col;
  if (const char* named = std::getenv("COLUMNS"); named != nullptr) {
    const std::string_view text = named;
    int64_t count = 0;  // stays 0 if COLUMNS is no number: shells set it, so no error
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
    if (error != std::errc() || end != text.data() + text.size()) count = 0;
    if (count > 0) columns = columns > 0 ? std::min(columns, count) : count;
  }
  return columns > 0 ? columns : 80;
}

}  // namespace

std::string format_duration(double seconds) {
  const auto s = static_cast<int64_t>(std::ceil(std::max(0.0, seconds)));
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {:02} s", s / 60, s % 60);
  return fmt::format("{} h {:02} min", s / 3600, s % 3600 / 60);
}

ProgressBar::ProgressBar() : redraws_(can_redraw()), last_shown_(Clock::now()) {}

ProgressBar::~ProgressBar() { clear(); }

void ProgressBar::clear() {
  if (drawn_) write_stderr("\r\033[K");
  drawn_ = false;
}

std::string ProgressBar::time_left() const {
  if (done_ <= first_done_ || done_ >= total_) return {};
  const double elapsed = std::chrono::duration<double>(Clock::now() - start_).count();
  const double left =
      elapsed * static_cast<double>(total_ - done_) / static_cast<double>(done_ - first_done_);
  return ", " + format_duration(left) + " left";
}

void ProgressBar::draw() const {
  // The last column stays free: some terminals begin a new line when it is written to.
  const int64_t columns = terminal_columns() - 1;
  std::string numbers = fmt::format("{:3} % {}/{}", done_ * 100 / total_, done_, total_);
  if (!detail_.empty()) numbers += ", " + detail_;
  numbers += time_left();
  const int64_t for_numbers = text_columns(numbers) + 1;
  const std::string label =
      fit_columns(label_, std::max(kLeastLabelColumns, columns - for_numbers));
  const int64_t for_bar = columns - for_numbers - text_columns(label) - 3;  // " [" and "]"
  std::string line = label;
  if (for_bar >= kLeastBarCells) {
    const int64_t cells = std::min(for_bar, kMostBarCells);
    const int64_t full = std::clamp<int64_t>(done_ * cells / total_, 0, cells);
    line += fmt::format(" [{:#<{}}{:.<{}}]", "", full, "", cells - full);
  }
  write_stderr("\r\033[K" + fit_columns(line + " " + numbers, columns));
}

void ProgressBar::print_line() {
  const std::string what = detail_.empty() ? fmt::format("{}/{}", done_, total_) : detail_;
  const std::string line = label_ + ": " + what + time_left();
  write_stderr(fit_columns(line, text_columns(line)) + "\n");
}

void ProgressBar::update(const std::string& label, int64_t done, int64_t total,
                         const std::string& detail) {
  const Clock::time_point now = Clock::now();
  const bool is_new = label != label_;
  if (is_new) {
    label_ = label;
    first_done_ = done;
    start_ = now;
  }
  detail_ = detail;
  done_ = done;
  total_ = total;
  if (redraws_) {
    if (!is_new && now - last_shown_ < kRedraw && done < total) return;
    draw();
    drawn_ = true;
  } else {
    if (now - last_shown_ < kSilence) return;
    print_line();
  }
  last_shown_ = now;
}

void ProgressBar::finish_step(int64_t num_steps) {
  const Clock::time_point now = Clock::now();
  if (redraws_ || (num_steps > kManySteps && done_ < total_ && now - last_shown_ < 1s)) return;
  print_line();
  last_shown_ = now;
}

}  // namespace vsa::cli
