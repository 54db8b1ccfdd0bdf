// Turns Status into Failure: exit codes, and messages without names of calls. Host-only.
#include "cli/common/failure.h"

#include <algorithm>

namespace vsa::cli {
namespace {

/// The length of "fine" in "[fine] ..."; 0 if the message begins otherwise.
size_t tag_size(std::string_view message) {
  if (!message.starts_with('[')) return 0;
  const size_t end = message.find("] ");
  if (end == message.npos) return 0;
  const bool is_name = std::ranges::all_of(message.substr(1, end - 1), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
  return is_name ? end - 1 : 0;
}

}  // namespace

ExitCode exit_code(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return ExitCode::kOk;
    case StatusCode::kInvalidArgument:
      return ExitCode::kUsage;
    case StatusCode::kUnsupported:
      return ExitCode::kUnsupported;
    case StatusCode::kIoError:
      return ExitCode::kInputOutput;
    case StatusCode::kCancelled:
      return ExitCode::kInterrupted;
    case StatusCode::kOutOfMemory:
    case StatusCode::kDeviceError:
    case StatusCode::kInternal:
      return ExitCode::kFailed;
  }
  return ExitCode::kFailed;
}

std::string plain(std::string_view message) {
  for (size_t size = tag_size(message); size != 0; size = tag_size(message)) {
    message.remove_prefix(size + 3);
  }
  return std::string(message);
}

std::string of_stage(std::string_view message) {
  const size_t size = tag_size(message);
  const std::string stage(message.substr(size == 0 ? 0 : 1, size));
  return size == 0 ? plain(message) : stage + ": " + plain(message);
}

void check(const Status& status, const std::string& hint) {
  if (!status.ok()) throw Failure(exit_code(status.code()), plain(status.message()), hint);
}

void fail_usage(const std::string& message, const std::string& hint) {
  throw Failure(ExitCode::kUsage, message, hint);
}

}  // namespace vsa::cli
