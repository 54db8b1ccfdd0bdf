// Aligns the columns of a table. Host-only.
#include "cli/common/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace vsa::cli {
namespace {

std::string scaled(double value, double base, const std::array<const char*, 6>& units) {
  size_t unit = 0;
  while (value >= base && unit + 1 < units.size()) {
    value /= base;
    ++unit;
  }
  return fmt::format("{:.4g} {}", value, units[unit]);
}

}  // namespace

std::string Table::to_string() const {
  std::vector<size_t> width(rows_.front().size(), 0);
  for (const auto& row : rows_) {
    for (size_t c = 0; c < row.size(); ++c) width[c] = std::max(width[c], row[c].size());
  }
  std::string text;
  for (const auto& row : rows_) {
    text += fmt::format("{:<{}}", row[0], width[0]);
    for (size_t c = 1; c < row.size(); ++c) text += fmt::format("  {:>{}}", row[c], width[c]);
    text += '\n';
  }
  return text;
}

std::string format_bytes(double bytes) {
  return scaled(bytes, 1024.0, {"B", "KiB", "MiB", "GiB", "TiB", "PiB"});
}

std::string format_flops(double flops) {
  return scaled(flops, 1000.0, {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"});
}

}  // namespace vsa::cli
