// How vsa reports errors: a Status from every call, a Result<T> where there is a value. Host-only.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace vsa {

/// One meaning per code; the C ABI and the exit codes of `vsa` follow this list.
enum class StatusCode : int {
  kOk = 0,
  kInvalidArgument = 1,  ///< the caller's argument is wrong; the message names it
  kUnsupported = 2,  ///< a right argument that this backend cannot serve; nothing else runs instead
  kOutOfMemory = 3,
  kDeviceError = 4,
  kIoError = 5,    ///< a file could not be read, written or trusted
  kCancelled = 6,  ///< the caller asked to stop
  kInternal = 7,   ///< a fault of vsa itself
};

/// "InvalidArgument" and so on; "Unknown" for a value outside the enum.
std::string_view name(StatusCode code);

/// The outcome of a call. Messages read `[operation] argument: expected X, got Y`.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

inline Status invalid_argument(std::string message) {
  return {StatusCode::kInvalidArgument, std::move(message)};
}
inline Status unsupported(std::string message) {
  return {StatusCode::kUnsupported, std::move(message)};
}
inline Status out_of_memory(std::string message) {
  return {StatusCode::kOutOfMemory, std::move(message)};
}
inline Status io_error(std::string message) { return {StatusCode::kIoError, std::move(message)}; }

/// The only exception type vsa throws, and only from Result::value() and throw_if_error().
class Error : public std::runtime_error {
 public:
  explicit Error(const Status& status)
      : std::runtime_error(status.message()), code_(status.code()) {}
  StatusCode code() const { return code_; }

 private:
  StatusCode code_;
};

/// Turns a failed Status into an Error; for callers who prefer exceptions.
inline void throw_if_error(const Status& status) {
  if (!status.ok()) throw Error(status);
}

/// A T, or the Status that says why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Result(Status status) : state_(std::move(status)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return std::holds_alternative<T>(state_); }
  Status status() const { return ok() ? Status() : std::get<Status>(state_); }

  /// The value; throws Error if there is none.
  T& value() & {
    throw_if_error(status());
    return std::get<T>(state_);
  }
  const T& value() const& {
    throw_if_error(status());
    return std::get<T>(state_);
  }
  T&& value() && {
    throw_if_error(status());
    return std::get<T>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::variant<T, Status> state_;
};

}  // namespace vsa

/// Returns the failed Status of `expr` from the enclosing function.
#define VSA_TRY(expr)                                                              \
  do {                                                                             \
    if (::vsa::Status vsa_status_ = (expr); !vsa_status_.ok()) return vsa_status_; \
  } while (false)
