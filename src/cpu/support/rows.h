// The tokens of one tile in memory: what every kernel reads and writes. Host-only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/core/element.h"
#include "vsa/tensor.h"
#include "vsa/tiling.h"

namespace vsa::cpu {

/// Rows of head_dim numbers of one head, to be read: row i is at data + position * stride elements,
/// where position = tokens[i], or i itself without a list.
struct Rows {
  const void* data = nullptr;  ///< element (b, h, 0, 0); null: no rows
  DType dtype = DType::kF32;
  int64_t stride = 0;  ///< in elements
  const int32_t* tokens = nullptr;
  int64_t count = 0;

  const void* at(int64_t i) const {
    const int64_t position = tokens != nullptr ? tokens[i] : i;
    return static_cast<const std::byte*>(data) + position * stride * size_bytes(dtype);
  }
};

/// The same, to be written.
struct MutableRows {
  void* data = nullptr;
  DType dtype = DType::kF32;
  int64_t stride = 0;
  const int32_t* tokens = nullptr;
  int64_t count = 0;

  void* at(int64_t i) const {
    const int64_t position = tokens != nullptr ? tokens[i] : i;
    return static_cast<std::byte*>(data) + position * stride * size_bytes(dtype);
  }
};

/// The rows of tile t, head h, batch item b; none if x is empty.
inline Rows tile_rows(const ConstTensor& x, int64_t b, int64_t h, const TilePlan& plan, int64_t t) {
  if (x.empty()) return {};
  const auto tokens = plan.tokens(t);
  return {
      .data = static_cast<const std::byte*>(x.data) + row_offset(x, b, h, 0) * size_bytes(x.dtype),
      .dtype = x.dtype,
      .stride = x.stride[2],
      .tokens = tokens.data(),
      .count = static_cast<int64_t>(tokens.size())};
}
inline MutableRows tile_rows(const Tensor& x, int64_t b, int64_t h, const TilePlan& plan,
                             int64_t t) {
  if (x.empty()) return {};
  const auto tokens = plan.tokens(t);
  return {.data = static_cast<std::byte*>(x.data) + row_offset(x, b, h, 0) * size_bytes(x.dtype),
          .dtype = x.dtype,
          .stride = x.stride[2],
          .tokens = tokens.data(),
          .count = static_cast<int64_t>(tokens.size())};
}

/// Row (b, h, s) of an f32 tensor; null if that is empty.
inline const float* f32_row(const ConstTensor& x, int64_t b, int64_t h, int64_t s) {
  return x.empty() ? nullptr : static_cast<const float*>(x.data) + row_offset(x, b, h, s);
}
inline float* f32_row(const Tensor& x, int64_t b, int64_t h, int64_t s) {
  return x.empty() ? nullptr : static_cast<float*>(x.data) + row_offset(x, b, h, s);
}

/// Rows to ask for ahead of the one that is read: rows of one head lie apart, where the hardware's
/// prefetchers do not look, and 8 rows of 512 bytes are as many lines as a core can wait for.
/// (BSHD, H 4, D 128, f32: 35 GB/s instead of 20.)
inline constexpr int64_t kPrefetchRows = 8;

/// Asks for the cache lines of row i, if there is one.
template <class R>
inline void prefetch_row(const R& rows, int64_t i, int64_t head_dim) {
  if (rows.data == nullptr || i >= rows.count) return;
  constexpr int64_t kCacheLine = 64;
  const auto* row = static_cast<const std::byte*>(rows.at(i));
  const int64_t bytes = head_dim * size_bytes(rows.dtype);
  for (int64_t byte = 0; byte < bytes; byte += kCacheLine) __builtin_prefetch(row + byte);
}

/// to[i, :] = row i as f32; columns from head_dim (a multiple of 8) up to ld are set to 0.
void load_rows(const Rows& rows, int64_t head_dim, float* to, int64_t ld);
/// Row i = from[i, :], rounded to nearest even.
void store_rows(const float* from, int64_t ld, int64_t head_dim, const MutableRows& rows);
/// mean[:] over `count` rows; 0 if there are none.
void mean_of_rows(const float* from, int64_t ld, int64_t count, int64_t head_dim, float* mean);
/// x[:] *= factor; n is a multiple of 8.
void scale_rows(float* x, int64_t n, float factor);

}  // namespace vsa::cpu
