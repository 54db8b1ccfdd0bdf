// The JSON header of a safetensors file, read by a strict SAX reader.
#include "runtime/io/safetensors_header.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/io/printable.h"
#include "runtime/io/safetensors_ranges.h"

namespace vsa::io {
namespace {

using nlohmann::json;

/// Accepts exactly
///   {"__metadata__": {string: string}, NAME: {"dtype": string, "shape": [...],
///    "data_offsets": [begin, end]}, ...}
/// and stops at the first thing that differs, so a hostile header costs no memory.
class HeaderReader {
 public:
  SafetensorsHeader header;
  std::string fault;  ///< "what: expected X, got Y" once a callback has returned false

  bool null() { return unexpected("null"); }
  bool boolean(bool value) { return unexpected(value ? "true" : "false"); }
  bool number_integer(int64_t value) { return unexpected(fmt::format("{}", value)); }
  bool number_float(double, const std::string& text) { return unexpected(text); }
  bool binary(json::binary_t&) { return unexpected("binary data"); }

  bool number_unsigned(uint64_t value) {
    if (where_ != Where::kShape && where_ != Where::kOffsets) {
      return unexpected(fmt::format("{}", value));
    }
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return refuse(fmt::format("expected less than 2^63, got {}", value));
    }
    auto& numbers = where_ == Where::kShape ? entry_.shape : offsets_;
    if (numbers.size() == kMaxRank)
      return refuse(fmt::format("expected at most {} numbers, got more", kMaxRank));
    numbers.push_back(static_cast<int64_t>(value));
    return true;
  }

  bool string(std::string& value) {
    if (where_ == Where::kMetadata) {
      header.metadata.emplace(metadata_key_, std::move(value));
      return true;
    }
    if (where_ != Where::kTensor || field_ != "dtype") return unexpected(printable(value));
    const auto type = storage_type_from_name(value);
    if (!type)
      return refuse(fmt::format("expected a known element type, got {}", printable(value)));
    entry_.type = *type;
    return true;
  }

  bool start_object(size_t) {
    if (where_ == Where::kStart) {
      where_ = Where::kRoot;
    } else if (where_ == Where::kRoot) {
      where_ = name_ == kMetadataKey ? Where::kMetadata : Where::kTensor;
      entry_ = {};
      offsets_.clear();
      seen_ = {};
      field_.clear();
    } else {
      return unexpected("an object");
    }
    return true;
  }

  bool key(std::string& value) {
    switch (where_) {
      case Where::kRoot:
        name_ = value;
        field_.clear();
        if (header.tensors.contains(value) || (value == kMetadataKey && metadata_seen_)) {
          return refuse("expected each key once, got it twice");
        }
        metadata_seen_ |= value == kMetadataKey;
        return true;
      case Where::kMetadata:
        metadata_key_ = value;
        if (header.metadata.contains(value)) {
          return refuse(fmt::format("expected each key once, got {} twice", printable(value)));
        }
        return true;
      default:
        return tensor_field(value);
    }
  }

  bool end_object() {
    if (where_ == Where::kTensor) {
      for (const auto& [field, seen] : {std::pair{"dtype", seen_.dtype},
                                        {"shape", seen_.shape},
                                        {"data_offsets", seen_.offsets}}) {
        field_ = field;
        if (!seen) return refuse("expected a value, got none");
      }
      if (offsets_.size() != 2) {
        return refuse(fmt::format("expected [begin, end], got {} numbers", offsets_.size()));
      }
      entry_.begin = offsets_[0];
      entry_.end = offsets_[1];
      header.tensors.emplace(name_, std::move(entry_));
    }
    where_ = where_ == Where::kRoot ? Where::kEnd : Where::kRoot;
    return true;
  }

  bool start_array(size_t) {
    if (where_ == Where::kTensor && field_ == "shape") {
      where_ = Where::kShape;
    } else if (where_ == Where::kTensor && field_ == "data_offsets") {
      where_ = Where::kOffsets;
    } else {
      return unexpected("an array");
    }
    return true;
  }

  bool end_array() {
    where_ = Where::kTensor;
    return true;
  }

  bool parse_error(size_t position, const std::string&, const json::exception&) {
    fault = fmt::format("header: expected JSON, got a syntax error at byte {}", position);
    return false;
  }

 private:
  enum class Where { kStart, kRoot, kMetadata, kTensor, kShape, kOffsets, kEnd };
  static constexpr std::string_view kMetadataKey = "__metadata__";
  static constexpr size_t kMaxRank = 64;  // what numpy and PyTorch can hold

  bool tensor_field(const std::string& key) {
    bool* seen = key == "dtype"          ? &seen_.dtype
                 : key == "shape"        ? &seen_.shape
                 : key == "data_offsets" ? &seen_.offsets
                                         : nullptr;
    field_.clear();
    if (seen == nullptr) {
      return refuse(fmt::format("expected dtype, shape and data_offsets, got {}", printable(key)));
    }
    if (*seen) return refuse(fmt::format("expected each key once, got {} twice", printable(key)));
    *seen = true;
    field_ = key;
    return true;
  }

  bool unexpected(std::string_view got) {
    switch (where_) {
      case Where::kStart:
      case Where::kEnd:
        fault = fmt::format("header: expected one JSON object, got {}", got);
        return false;
      case Where::kRoot:
        return refuse(fmt::format("expected an object, got {}", got));
      case Where::kMetadata:
        return refuse(fmt::format("expected a string, got {}", got));
      case Where::kShape:
      case Where::kOffsets:
        return refuse(fmt::format("expected integers of at least 0, got {}", got));
      case Where::kTensor:
        break;
    }
    return refuse(
        fmt::format("expected {}, got {}", field_ == "dtype" ? "a string" : "an array", got));
  }

  bool refuse(std::string_view what) {
    fault = fmt::format("{}{}{}: {}", printable(name_), field_.empty() ? "" : " ", field_, what);
    return false;
  }

  Where where_ = Where::kStart;
  std::string name_;          // key of the root being read
  std::string field_;         // key of the tensor being read
  std::string metadata_key_;  // key of __metadata__ being read
  bool metadata_seen_ = false;
  TensorEntry entry_;
  std::vector<int64_t> offsets_;
  struct {
    bool dtype, shape, offsets;
  } seen_{};
};

}  // namespace

Result<SafetensorsHeader> parse_safetensors_header(std::string_view text, int64_t data_bytes,
                                                   std::string_view file) {
  const auto fail = [file](std::string_view what) {
    return io_error(fmt::format("[read_safetensors] {}: {}", file, what));
  };
  if (!text.starts_with('{')) return fail("header: expected '{' as its first byte, got another");
  // The JSON reader takes a NUL for the end of its input and would not see what follows.
  if (text.find('\0') != text.npos) return fail("header: expected JSON, got a NUL byte");
  HeaderReader reader;
  if (!json::sax_parse(text.begin(), text.end(), &reader)) return fail(reader.fault);
  if (const Status s = check_ranges(reader.header, data_bytes); !s.ok()) return fail(s.message());
  return std::move(reader.header);
}

}  // namespace vsa::io
