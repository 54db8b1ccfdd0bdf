// Whether the tensors of a header and the bytes after it fit each other.
#include "runtime/io/safetensors_ranges.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/io/printable.h"

namespace vsa::io {
namespace {

/// The bytes a tensor of that type and shape takes, or an error if they do not fit 63 bits.
/// Extents are multiplied with zeros left out: an empty tensor may not hide an overflow that a
/// computation of strides would then meet.
Result<int64_t> byte_size(const TensorEntry& entry) {
  int64_t bytes = size_bytes(entry.type);
  bool is_empty = false;
  for (const int64_t extent : entry.shape) {
    is_empty |= extent == 0;
    if (extent != 0 && __builtin_mul_overflow(bytes, extent, &bytes)) {
      return io_error(fmt::format("shape: expected fewer than 2^63 bytes, got [{}]",
                                  fmt::join(entry.shape, ",")));
    }
  }
  return is_empty ? 0 : bytes;
}

Status check_entry(const TensorEntry& entry, int64_t data_bytes) {
  if (entry.begin > entry.end || entry.end > data_bytes) {
    return io_error(fmt::format("data_offsets: expected begin <= end <= {}, got [{},{}]",
                                data_bytes, entry.begin, entry.end));
  }
  const Result<int64_t> bytes = byte_size(entry);
  if (!bytes.ok()) return bytes.status();
  if (*bytes != entry.end - entry.begin) {
    return io_error(fmt::format("data_offsets: expected {} bytes for {} [{}], got {}", *bytes,
                                name(entry.type), fmt::join(entry.shape, ","),
                                entry.end - entry.begin));
  }
  return {};
}

/// In order of their offsets the tensors must meet end to end, from byte 0 to the last.
Status check_cover(const SafetensorsHeader& header, int64_t data_bytes) {
  using Item = std::pair<const std::string, TensorEntry>;
  std::vector<const Item*> items;
  for (const Item& item : header.tensors) items.push_back(&item);
  std::sort(items.begin(), items.end(), [](const Item* a, const Item* b) {
    return std::pair(a->second.begin, a->second.end) < std::pair(b->second.begin, b->second.end);
  });
  int64_t cursor = 0;
  for (const Item* item : items) {
    if (item->second.begin != cursor) {
      return io_error(
          fmt::format("{} data_offsets: expected to begin at {} (no overlap, no hole), got {}",
                      printable(item->first), cursor, item->second.begin));
    }
    cursor = item->second.end;
  }
  if (cursor != data_bytes) {
    return io_error(
        fmt::format("data: expected {} bytes after the header, got {}", cursor, data_bytes));
  }
  return {};
}

}  // namespace

Status check_ranges(const SafetensorsHeader& header, int64_t data_bytes) {
  for (const auto& [tensor, entry] : header.tensors) {
    if (const Status s = check_entry(entry, data_bytes); !s.ok()) {
      return io_error(fmt::format("{} {}", printable(tensor), s.message()));
    }
  }
  return check_cover(header, data_bytes);
}

}  // namespace vsa::io
