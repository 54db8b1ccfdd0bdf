// Where a function of the tests was called, for its messages.
#pragma once

namespace vsa::test {

/// As a last argument that callers leave out, `Caller where = Caller()` is the line of the call. In
/// place of std::source_location, which clang 14 lacks.
struct Caller {
  const char* file;
  int line;

  explicit Caller(const char* in_file = __builtin_FILE(), int at_line = __builtin_LINE())
      : file(in_file), line(at_line) {}
};

}  // namespace vsa::test
