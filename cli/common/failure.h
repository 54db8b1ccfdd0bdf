// How a subcommand fails: an exit code, one line, and a hint when there is a remedy. Host-only.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "vsa/status.h"

namespace vsa::cli {

enum class ExitCode : int {
  kOk = 0,
  kFailed = 1,
  kUsage = 2,
  kUnsupported = 3,
  kInputOutput = 4,
  kInterrupted = 130,  ///< by SIGINT; see interrupt_exit_code() for other signals
};

/// Thrown by subcommands; main prints `vsa NAME: error: what()` and `hint: hint()`.
class Failure : public std::runtime_error {
 public:
  Failure(ExitCode code, const std::string& message, std::string hint = "")
      : std::runtime_error(message), code_(code), hint_(std::move(hint)) {}
  ExitCode code() const { return code_; }
  const std::string& hint() const { return hint_; }

 private:
  ExitCode code_;
  std::string hint_;
};

/// A message of the library without the names of calls that it begins with ("[fine] "), which are
/// for whoever called the library, not for whoever typed a command.
std::string plain(std::string_view message);
/// The same where calls are stages, which users know: "fine: ...".
std::string of_stage(std::string_view message);

/// The exit code of a failed call.
ExitCode exit_code(StatusCode code);

/// Throws the Failure of a Status that is not ok.
void check(const Status& status, const std::string& hint = "");

/// The value of a Result, or its Failure.
template <class T>
T take(Result<T> result, const std::string& hint = "") {
  check(result.status(), hint);
  return std::move(result).value();
}

/// An option has a wrong value: exit code 2. `option: expected X, got Y`.
[[noreturn]] void fail_usage(const std::string& message, const std::string& hint = "");

}  // namespace vsa::cli
