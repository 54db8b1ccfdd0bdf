// Shared by kernels whose CTAs process the tokens of one tile of one head, and whose threads
// process 16 bytes of a row each. Device-only.
#pragma once

#include "src/cuda/plan/tile_positions.h"
#include "src/cuda/support/half_type.h"
#include "src/cuda/support/launch.h"
#include "src/cuda/support/rows.h"

namespace vsa::cuda {

inline constexpr int kElements = 8;  // of a thread, 16 bytes

/// The tile and the head of a CTA. grid: x tiles * heads, y batch. Heads vary fastest, because in
/// BSHD tensors the rows of neighbouring heads are neighbours in memory.
struct Place {
  int tile, head;
  __device__ explicit Place(int num_heads)
      : tile(static_cast<int>(blockIdx.x) / num_heads),
        head(static_cast<int>(blockIdx.x) % num_heads) {}
  template <class AnyRows>
  __device__ __forceinline__ int64_t offset(const AnyRows& rows, int64_t row) const {
    return blockIdx.y * rows.batch + head * rows.head + row * rows.seq;
  }
};

/// Eight elements of a row.
struct Piece {
  float x[kElements];

  template <class T>
  __device__ __forceinline__ static Piece unpack(const uint4& raw) {
    Piece piece;
    unpack8<T>(raw, piece.x);
    return piece;
  }
  template <class T>
  __device__ __forceinline__ uint4 pack() const {
    return pack8<T>(x);
  }
  __device__ __forceinline__ friend Piece operator*(const Piece& a, const Piece& b) {
    Piece product;
#pragma unroll
    for (int j = 0; j < kElements; ++j) product.x[j] = a.x[j] * b.x[j];
    return product;
  }
};

/// Loads and stores of this thread's piece of one token, in several tensors.
template <class T>
class Token {
 public:
  __device__ __forceinline__ Token(const Place& place, int64_t position, int column)
      : place_(place), position_(position), column_(column) {}

  /// Returns zeros if the tensor is absent.
  __device__ __forceinline__ uint4 load(const ConstRows& rows) const {
    if (rows.data == nullptr) return {};
    const T* from = static_cast<const T*>(rows.data) + place_.offset(rows, position_) + column_;
    return __ldg(reinterpret_cast<const uint4*>(from));
  }
  __device__ __forceinline__ void store(const Rows& rows, const uint4& raw) const {
    if (rows.data == nullptr) return;
    T* to = static_cast<T*>(rows.data) + place_.offset(rows, position_) + column_;
    *reinterpret_cast<uint4*>(to) = raw;
  }

 private:
  const Place& place_;
  int64_t position_;
  int column_;
};

/// The launch of a kernel with one CTA for each tile of each head.
template <class Params>
LaunchShape shape_of_tiles(const Params& params, int64_t batch, int threads) {
  const int64_t tiles = int64_t{params.plan.shape.num_tiles} * params.num_heads;
  return {.grid = dim3(grid_extent(tiles), grid_extent(batch)),
          .block = dim3(static_cast<unsigned>(threads))};
}

}  // namespace vsa::cuda
