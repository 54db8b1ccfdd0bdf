// Rotary position embedding over the three axes of a video. Host-only.
#include "runtime/nn/rope.h"

#include <algorithm>
#include <cmath>

#include "runtime/nn/multiversion.h"

namespace vsa::nn {
namespace {

/// One token: x[i] cos[i] + x[partner of i] signed_sin[i] in every head.
VSA_MULTIVERSION void rotate(float* x, int64_t num_heads, int64_t head_dim, const float* cos,
                             const float* signed_sin) {
  for (int64_t h = 0; h < num_heads; ++h, x += head_dim) {
#pragma omp simd
    for (int64_t i = 0; i < head_dim; i += 2) {
      const float a = x[i];
      const float b = x[i + 1];
      x[i] = a * cos[i] + b * signed_sin[i];
      x[i + 1] = b * cos[i + 1] + a * signed_sin[i + 1];
    }
  }
}

}  // namespace

std::array<int64_t, 3> rope_split(int64_t head_dim) {
  const int64_t space = 2 * (head_dim / 6);
  return {head_dim - 2 * space, space, space};
}

Rope::Rope(Grid grid, int64_t head_dim) : grid_(grid), head_dim_(head_dim) {
  const std::array<int64_t, 3> lengths{grid.f, grid.h, grid.w};
  const std::array<int64_t, 3> widths = rope_split(head_dim);
  for (size_t a = 0; a < 3; ++a) {
    Axis axis{.width = widths[a],
              .cos = Buffer(lengths[a] * widths[a]),
              .signed_sin = Buffer(lengths[a] * widths[a])};
    for (int64_t p = 0; p < lengths[a]; ++p) {
      for (int64_t i = 0; i < axis.width; ++i) {
        const auto pair = static_cast<double>(i / 2);
        const double angle = static_cast<double>(p) *
                             std::pow(10000.0, -2.0 * pair / static_cast<double>(axis.width));
        axis.cos.data()[p * axis.width + i] = static_cast<float>(std::cos(angle));
        const double sin = std::sin(angle);
        axis.signed_sin.data()[p * axis.width + i] = static_cast<float>(i % 2 == 0 ? -sin : sin);
      }
    }
    axes_.push_back(std::move(axis));
  }
}

void Rope::apply(float* x, int64_t first_token, int64_t rows, int64_t num_heads) const {
  std::vector<float> cos(static_cast<size_t>(head_dim_));
  std::vector<float> sin(static_cast<size_t>(head_dim_));
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t token = first_token + r;
    const std::array<int64_t, 3> position{token / (grid_.h * grid_.w), token / grid_.w % grid_.h,
                                          token % grid_.w};
    int64_t column = 0;
    for (size_t a = 0; a < 3; ++a) {
      const Axis& axis = axes_[a];
      const int64_t row = position[a] * axis.width;
      std::copy_n(axis.cos.data() + row, axis.width, cos.data() + column);
      std::copy_n(axis.signed_sin.data() + row, axis.width, sin.data() + column);
      column += axis.width;
    }
    rotate(x + r * num_heads * head_dim_, num_heads, head_dim_, cos.data(), sin.data());
  }
}

}  // namespace vsa::nn
