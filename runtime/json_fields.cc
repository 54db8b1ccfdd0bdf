// Reads typed, range-checked fields of a JSON object. Host-only.
#include "runtime/json_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <system_error>

#include "runtime/io/file_kind.h"

namespace vsa::runtime {

using nlohmann::json;

namespace {

constexpr int64_t kMost = std::numeric_limits<int32_t>::max();

bool is_integer(const json& value, int64_t least) {
  if (!value.is_number_integer()) return false;
  // Unsigned numbers may be too large for int64_t.
  if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{kMost}) return false;
  return value.get<int64_t>() >= least && value.get<int64_t>() <= kMost;
}

}  // namespace

JsonFields::JsonFields(const json& object, std::string_view file) : object_(object), file_(file) {
  if (!object.is_object()) {
    fail(io_error(
        fmt::format("[config] {}: expected a JSON object, got {}", file_, object.type_name())));
  }
}

const json* JsonFields::find(const std::string& key) {
  read_.insert(key);
  if (!object_.is_object()) return nullptr;
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

void JsonFields::wrong(const std::string& key, const std::string& expected) {
  fail(io_error(fmt::format("[config] {}: {}: expected {}, got {}", file_, key, expected,
                            object_.at(key).dump())));
}

void JsonFields::fail(Status status) {
  if (status_.ok()) status_ = std::move(status);
}

int64_t JsonFields::integer(const std::string& key, int64_t fallback, int64_t least) {
  const json* value = find(key);
  if (value == nullptr) return fallback;
  if (!is_integer(*value, least)) {
    wrong(key, fmt::format("an integer from {} to {}", least, kMost));
    return fallback;
  }
  return value->get<int64_t>();
}

int64_t JsonFields::required_integer(const std::string& key, int64_t least) {
  if (find(key) == nullptr) {
    fail(io_error(fmt::format("[config] {}: {}: expected an integer, got none", file_, key)));
  }
  return integer(key, least, least);
}

double JsonFields::number(const std::string& key, double fallback, double above) {
  const json* value = find(key);
  if (value == nullptr) return fallback;
  if (!value->is_number() || !std::isfinite(value->get<double>()) ||
      value->get<double>() <= above) {
    wrong(key, fmt::format("a number above {}", above));
    return fallback;
  }
  return value->get<double>();
}

bool JsonFields::boolean(const std::string& key, bool fallback) {
  const json* value = find(key);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) {
    wrong(key, "true or false");
    return fallback;
  }
  return value->get<bool>();
}

std::string JsonFields::text(const std::string& key, const std::string& fallback) {
  const json* value = find(key);
  if (value == nullptr) return fallback;
  if (!value->is_string()) {
    wrong(key, "a string");
    return fallback;
  }
  return value->get<std::string>();
}

std::vector<int64_t> JsonFields::integers(const std::string& key, std::vector<int64_t> fallback) {
  const json* value = find(key);
  if (value == nullptr) return fallback;
  std::vector<int64_t> numbers;
  if (value->is_array() && value->size() == fallback.size()) {
    for (const json& element : *value) {
      if (is_integer(element, 1)) numbers.push_back(element.get<int64_t>());
    }
  }
  if (numbers.size() != fallback.size()) {
    wrong(key, fmt::format("{} integers of at least 1", fallback.size()));
    return fallback;
  }
  return numbers;
}

std::vector<std::vector<int64_t>> JsonFields::integer_lists(const std::string& key, size_t count) {
  const json* value = find(key);
  if (value == nullptr) return {};
  std::vector<std::vector<int64_t>> lists;
  for (const json& list : value->is_array() ? *value : json::array({json()})) {
    const auto is_count = [](const json& element) { return is_integer(element, 1); };
    if (!list.is_array() || list.size() != count || !std::ranges::all_of(list, is_count)) {
      wrong(key, fmt::format("lists of {} integers of at least 1", count));
      return {};
    }
    lists.push_back(list.get<std::vector<int64_t>>());
  }
  return lists;
}

std::vector<std::string> JsonFields::texts(const std::string& key) {
  const json* value = find(key);
  if (value == nullptr) return {};
  std::vector<std::string> result;
  for (const json& element : value->is_array() ? *value : json::array({json()})) {
    if (!element.is_string()) {
      wrong(key, "a list of strings");
      return {};
    }
    result.push_back(element.get<std::string>());
  }
  return result;
}

bool JsonFields::present(const std::string& key) { return find(key) != nullptr; }

std::vector<std::string> JsonFields::unread() const {
  std::vector<std::string> keys;
  if (!object_.is_object()) return keys;
  for (const auto& [key, value] : object_.items()) {
    if (!key.starts_with('_') && !read_.contains(key)) keys.push_back(key);
  }
  return keys;
}

Result<json> read_json_object(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    const int code = errno;
    return io_error(
        fmt::format("[config] {}: expected a file, got {}", path,
                    code == 0 || code == ENOENT ? "none" : std::generic_category().message(code)));
  }
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto fail = [&path](const std::string& got) {
    return io_error(fmt::format("[config] {}: expected a JSON object, got {}", path, got));
  };
  try {
    json parsed = json::parse(text);
    if (parsed.is_object()) return parsed;
    return fail(parsed.type_name());
  } catch (const json::parse_error& fault) {
    const size_t start = text.find_first_not_of(" \t\r\n");
    if (start == text.find_first_of("{[") && start != text.npos) {
      return fail(fmt::format("JSON with a fault at byte {}", fault.byte));
    }
    return fail(io::file_kind(std::as_bytes(std::span(text))));
  }
}

}  // namespace vsa::runtime
