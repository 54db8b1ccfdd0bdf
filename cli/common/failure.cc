#include "cli/common/failure.h"

namespace vsa::cli {

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

void check(const Status& status, const std::string& hint) {
  if (!status.ok()) throw Failure(exit_code(status.code()), status.message(), hint);
}

void fail_usage(const std::string& message, const std::string& hint) {
  throw Failure(ExitCode::kUsage, message, hint);
}

}  // namespace vsa::cli
