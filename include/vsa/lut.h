// The selection as a value: which kv tiles every query tile keeps. Host-only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace vsa {

/// Extents of a Lut, for designated initialisers.
struct LutDims {
  int64_t batch = 1;
  int64_t num_heads = 1;
  int64_t num_q_tiles = 1;
  int64_t pitch = 1;  ///< row width: the largest count a row can hold
};

/// A look-up table that is only read. Row (b, h, i) starts at
/// index + ((b * num_heads + h) * num_q_tiles + i) * pitch and holds count[...] absolute kv-tile
/// indices, ascending and unique; the tail up to pitch is -1. A count of 0 means the query tile
/// attends to nothing. Does not own its memory.
struct ConstLut {
  const int32_t* index = nullptr;  ///< [B, H, num_q_tiles, pitch]
  const int32_t* count = nullptr;  ///< [B, H, num_q_tiles]
  LutDims dims;
  bool empty() const { return index == nullptr; }
};

/// A look-up table that `select` writes; same layout.
struct Lut {
  int32_t* index = nullptr;
  int32_t* count = nullptr;
  LutDims dims;
  bool empty() const { return index == nullptr; }
  operator ConstLut() const { return {index, count, dims}; }  // NOLINT(google-explicit-constructor)
};

/// A Lut with memory of its own, all rows empty at first.
class LutBuffer {
 public:
  LutBuffer() = default;
  explicit LutBuffer(LutDims dims)
      : dims_(dims),
        index_(static_cast<size_t>(dims.batch * dims.num_heads * dims.num_q_tiles * dims.pitch),
               -1),
        count_(static_cast<size_t>(dims.batch * dims.num_heads * dims.num_q_tiles), 0) {}
  /// Every row keeps the kv tiles 0 to pitch - 1; with pitch = num_kv_tiles, dense attention.
  static LutBuffer dense(LutDims dims) {
    LutBuffer lut(dims);
    for (size_t row = 0; row < lut.count_.size(); ++row) {
      const auto first = lut.index_.begin() + static_cast<std::ptrdiff_t>(row) * dims.pitch;
      std::iota(first, first + dims.pitch, 0);
      lut.count_[row] = static_cast<int32_t>(dims.pitch);
    }
    return lut;
  }
  Lut view() { return {index_.data(), count_.data(), dims_}; }
  ConstLut view() const { return {index_.data(), count_.data(), dims_}; }

 private:
  LutDims dims_;
  std::vector<int32_t> index_;
  std::vector<int32_t> count_;
};

}  // namespace vsa
