// Checks of selections: the lists of SelectOptions and look-up tables. Host-only.
#include <fmt/format.h>

#include "src/core/arg_check.h"

namespace vsa {
namespace {

std::string to_string(const LutDims& d) {
  return fmt::format("[{},{},{},{}]", d.batch, d.num_heads, d.num_q_tiles, d.pitch);
}

bool is_misaligned(const int32_t* p) {
  return reinterpret_cast<uintptr_t>(p) % alignof(int32_t) != 0;
}

}  // namespace

Status ArgCheck::ascending(std::string_view argument, std::span<const int32_t> list, int64_t end) {
  if (list.empty()) return {};
  if (static_cast<uint64_t>(list.size()) > static_cast<uint64_t>(end)) {
    return fault(argument, fmt::format("at most {} indices", end), std::to_string(list.size()));
  }
  if (list.data() == nullptr || is_misaligned(list.data())) {
    return fault(argument, fmt::format("{} int32", list.size()),
                 fmt::format("address {}", static_cast<const void*>(list.data())));
  }
  int64_t previous = -1;
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i] <= previous || list[i] >= end) {
      return fault(argument, fmt::format("ascending unique indices from 0 to {}", end - 1),
                   fmt::format("{} at [{}]{}", list[i], i,
                               i == 0 ? "" : fmt::format(" after {}", previous)));
    }
    previous = list[i];
  }
  inputs_.push_back(region_of(argument, list.data(), static_cast<int64_t>(list.size())));
  return {};
}

Status ArgCheck::select_options(const SelectOptions& options, int64_t num_q_tiles,
                                int64_t num_kv_tiles) {
  if (options.topk < 1 || options.topk > num_kv_tiles) {
    return fault("topk", fmt::format("1 to {} (all kv tiles)", num_kv_tiles),
                 std::to_string(options.topk));
  }
  VSA_TRY(ascending("forced_columns", options.forced_columns, num_kv_tiles));
  return ascending("dense_rows", options.dense_rows, num_q_tiles);
}

Status ArgCheck::lut_extents(std::string_view argument, const ConstLut& lut, const LutDims& dims,
                             std::string_view hint) const {
  const auto expected = [&] { return fmt::format("int32 {}", to_string(dims)); };
  if (lut.index == nullptr) return fault(argument, expected(), "null indices", hint);
  if (lut.count == nullptr) return fault(argument, expected(), "null counts", hint);
  if (is_misaligned(lut.index) || is_misaligned(lut.count)) {
    return fault(argument, "addresses that are multiples of 4",
                 fmt::format("{} and {}", static_cast<const void*>(lut.index),
                             static_cast<const void*>(lut.count)));
  }
  if (lut.dims.batch != dims.batch || lut.dims.num_heads != dims.num_heads ||
      lut.dims.num_q_tiles != dims.num_q_tiles) {
    return fault(argument, expected(), "int32 " + to_string(lut.dims), hint);
  }
  if (lut.dims.pitch < dims.pitch) {
    return fault(argument, fmt::format("a pitch of at least {}", dims.pitch),
                 std::to_string(lut.dims.pitch), hint);
  }
  int64_t bytes = sizeof(int32_t);
  for (const int64_t extent : {dims.batch, dims.num_heads, dims.num_q_tiles, lut.dims.pitch}) {
    if (__builtin_mul_overflow(bytes, extent, &bytes)) {
      return fault(argument, "fewer than 2^63 bytes", "int32 " + to_string(lut.dims));
    }
  }
  return {};
}

void ArgCheck::remember_lut(std::string_view argument, const ConstLut& lut,
                            std::vector<Region>& where) {
  const int64_t rows = lut.dims.batch * lut.dims.num_heads * lut.dims.num_q_tiles;
  where.push_back(region_of(argument, lut.index, rows * lut.dims.pitch));
  where.push_back(region_of(argument, lut.count, rows));
}

Status ArgCheck::input_lut(std::string_view argument, const ConstLut& lut, const LutDims& dims,
                           int64_t num_kv_tiles, std::string_view hint) {
  VSA_TRY(lut_extents(argument, lut, dims, hint));
  remember_lut(argument, lut, inputs_);
  if (traits_.memory == MemoryKind::kDevice) return {};
  const int64_t pitch = lut.dims.pitch;
  const int64_t rows = dims.batch * dims.num_heads * dims.num_q_tiles;
  const auto place = [&](int64_t row) {
    return fmt::format("[{},{},{}]", row / dims.num_q_tiles / dims.num_heads,
                       row / dims.num_q_tiles % dims.num_heads, row % dims.num_q_tiles);
  };
  for (int64_t row = 0; row < rows; ++row) {
    const int32_t count = lut.count[row];
    if (count < 0 || count > pitch) {
      return fault(argument, fmt::format("counts of 0 to {} (the pitch)", pitch),
                   fmt::format("{} in row {}", count, place(row)));
    }
    int64_t previous = -1;
    for (int64_t i = row * pitch; i < row * pitch + count; ++i) {  // the tail is not read
      if (lut.index[i] <= previous || lut.index[i] >= num_kv_tiles) {
        return fault(argument,
                     fmt::format("ascending unique kv tiles from 0 to {}", num_kv_tiles - 1),
                     fmt::format("{} after {} in row {}", lut.index[i],
                                 previous < 0 ? "nothing" : std::to_string(previous), place(row)));
      }
      previous = lut.index[i];
    }
  }
  return {};
}

Status ArgCheck::output_lut(std::string_view argument, const Lut& lut, const LutDims& dims) {
  VSA_TRY(lut_extents(argument, lut, dims, {}));
  remember_lut(argument, lut, outputs_);
  return {};
}

}  // namespace vsa
