// A table of text with aligned columns. Host-only.
#pragma once

#include <string>
#include <vector>

namespace vsa::cli {

/// Rows of cells; the first column is aligned left, the others right.
class Table {
 public:
  explicit Table(std::vector<std::string> header) : rows_{std::move(header)} {}
  /// As many cells as the header has.
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  /// Every row on a line of its own, the header first.
  std::string to_string() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

/// 131072 -> "128 KiB".
std::string format_bytes(double bytes);
/// 1.5e9 -> "1.5 GFLOP".
std::string format_flops(double flops);

}  // namespace vsa::cli
