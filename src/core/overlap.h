// Which bytes a strided argument touches, and whether two arguments share one. Host-only.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "vsa/tensor.h"

namespace vsa {

/// The memory of one argument: bytes at `address` + any combination of its axes.
struct Region {
  struct Axis {
    int64_t count = 1;
    int64_t stride_bytes = 0;
  };
  std::string_view argument;  ///< its name in messages
  uint64_t address = 0;
  std::array<Axis, 5> axes{};  ///< the four of a tensor, and the bytes of one element
};

/// The region of a tensor whose dtype is known and whose extents are >= 1.
Region region_of(std::string_view argument, const ConstTensor& tensor);
/// The region of `count` int32 in a row.
Region region_of(std::string_view argument, const int32_t* data, int64_t count);

/// True if every byte of the region has an address (64-bit, no wrap-around).
bool is_addressable(const Region& region);

/// True if no two elements share memory, judged by the strides: each must step over everything that
/// the smaller strides reach. All layouts in use satisfy this; exotic ones without overlap may not.
bool is_injective(const Region& region);

/// True if some byte belongs to both. Exact, so views interleaved in one buffer (fused QKV) do not
/// count as overlapping; for layouts that would take a long search the answer is true.
bool overlap(const Region& a, const Region& b);

}  // namespace vsa
