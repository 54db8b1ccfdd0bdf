// Writes to stdout and stderr. Host-only.
#include "cli/common/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "cli/common/failure.h"

namespace vsa::cli {
namespace {

/// Text from files and arguments may be anything; what is not UTF-8 becomes U+FFFD.
std::string dump(const nlohmann::ordered_json& document, int indent) {
  return document.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

/// Uses write(2) rather than stdio, so that an error is found at the write that failed and not when
/// the program exits, where it could not be reported. @return 0, or the errno of that write
int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      pollfd stream{.fd = fd, .events = POLLOUT, .revents = 0};  // a pipe that does not block
      ::poll(&stream, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

}  // namespace

void print_result(std::string_view text) {
  const int error = write_all(STDOUT_FILENO, text);
  if (error == 0) return;
  if (error == EPIPE) throw Failure(ExitCode::kInputOutput, "");
  throw Failure(ExitCode::kInputOutput,
                fmt::format("standard output: cannot write: {}", std::strerror(error)));
}

void print_json(const nlohmann::ordered_json& document) { print_result(dump(document, 2)); }

void print_json_line(const nlohmann::ordered_json& document) { print_result(dump(document, -1)); }

void write_stderr(std::string_view text) {
  // If stderr is closed or its disk is full, the user still wants the results.
  static_cast<void>(write_all(STDERR_FILENO, text));
}

void note(std::string_view text) { write_stderr(fmt::format("{}\n", text)); }

void warn(std::string_view text) { note(fmt::format("warning: {}", text)); }

void open_standard_streams() {
  // Read-only, so that a write fails, as it did before: results that nobody gets are an error.
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // open(2) takes the lowest free number, which is fd, as those below it are open by now.
    if (::fcntl(fd, F_GETFD) == -1) static_cast<void>(::open("/dev/null", O_RDONLY));
  }
}

}  // namespace vsa::cli
