// Rotary position embedding over the three axes of a video. Host-only.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/nn/buffer.h"
#include "vsa/tiling.h"

namespace vsa::nn {

/// How head_dim is shared among the axes: h and w get 2 * floor(D / 6) each, f the rest.
/// 128 -> 44, 42, 42; 64 -> 24, 20, 20.
std::array<int64_t, 3> rope_split(int64_t head_dim);

/// Rotation angles of a grid: pair j of an axis with n channels turns by position * 10000^(-2j/n).
/// Angles are computed in f64. Memory: (F + H + W) * head_dim floats at most.
class Rope {
 public:
  /// @param order  row i of what is rotated is token order[i] of raster order; empty: token i. Must
  ///               outlive this object
  Rope(Grid grid, int64_t head_dim, std::span<const int32_t> order = {});

  /// Turns every pair (2j, 2j+1) of every head: (a, b) -> (a cos - b sin, a sin + b cos).
  /// @param x      [rows, num_heads, head_dim], rows first_row... of the sequence; in place
  void apply(float* x, int64_t first_row, int64_t rows, int64_t num_heads) const;

  /// The angles themselves, as norm_rope_pool takes them.
  /// @param cos, sin  [num_tokens, head_dim / 2]
  void write_tables(float* cos, float* sin) const;

 private:
  /// Of one row: [head_dim] each, as an Axis holds them.
  void angles(int64_t row, float* cos, float* signed_sin) const;

  struct Axis {
    int64_t width = 0;  // channels of this axis
    Buffer cos;         // [length, width], each value twice: once for each of a pair
    Buffer signed_sin;  // [length, width], -sin and +sin in turn
  };
  Grid grid_;
  int64_t head_dim_ = 0;
  std::span<const int32_t> order_;
  std::vector<Axis> axes_;
};

}  // namespace vsa::nn
