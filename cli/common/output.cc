#include "cli/common/output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "cli/common/failure.h"

namespace vsa::cli {
namespace {

/// Text from files and arguments may be anything; what is not UTF-8 becomes U+FFFD.
std::string dump(const nlohmann::ordered_json& document, int indent) {
  return document.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

void print_result(std::string_view text) {
  // write(2) rather than stdio: an error shows at the line it belongs to, and none is left for
  // exit, where nobody could report it.
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EPIPE) {
      throw Failure(ExitCode::kInputOutput, "");
    } else if (errno != EINTR) {
      throw Failure(ExitCode::kInputOutput,
                    fmt::format("standard output: cannot write: {}", std::strerror(errno)));
    }
  }
}

void print_json(const nlohmann::ordered_json& document) { print_result(dump(document, 2)); }

void print_json_line(const nlohmann::ordered_json& document) { print_result(dump(document, -1)); }

void note(std::string_view text) { fmt::print(stderr, "{}\n", text); }

}  // namespace vsa::cli
