// Reads typed, range-checked fields of a JSON object and remembers which were read. Host-only.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "vsa/status.h"

namespace vsa::runtime {

/// One JSON object under reading. The first fault is kept; later reads return the fallback, so a
/// caller reads all fields and then looks at status() once.
class JsonFields {
 public:
  /// @param file  how messages name the object
  JsonFields(const nlohmann::json& object, std::string_view file);

  /// An integer in [least, 2^31). Absent or null: fallback.
  int64_t integer(const std::string& key, int64_t fallback, int64_t least = 1);
  /// An integer that must be there.
  int64_t required_integer(const std::string& key, int64_t least = 1);
  /// A finite number above `above`. Absent or null: fallback.
  double number(const std::string& key, double fallback, double above);
  bool boolean(const std::string& key, bool fallback);
  /// Absent or null: fallback.
  std::string text(const std::string& key, const std::string& fallback);
  /// Exactly `count` integers >= 1. Absent or null: fallback.
  std::vector<int64_t> integers(const std::string& key, std::vector<int64_t> fallback);
  /// Lists of exactly `count` integers >= 1. Absent or null: none.
  std::vector<std::vector<int64_t>> integer_lists(const std::string& key, size_t count);
  /// Strings. Absent or null: none.
  std::vector<std::string> texts(const std::string& key);
  /// True if the field is there and not null; counts as read.
  bool present(const std::string& key);

  /// Records a fault of the caller's own finding, unless there is one already.
  void fail(Status status);
  const Status& status() const { return status_; }
  /// Keys that nobody read, but for those with a leading underscore.
  std::vector<std::string> unread() const;

 private:
  const nlohmann::json* find(const std::string& key);
  void wrong(const std::string& key, const std::string& expected);

  const nlohmann::json& object_;
  std::string file_;
  std::set<std::string> read_;
  Status status_;
};

/// Parses a file that must hold one JSON object.
/// @return IoError if it is missing or is something else
Result<nlohmann::json> read_json_object(const std::string& path);

}  // namespace vsa::runtime
