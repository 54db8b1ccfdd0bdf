// Rotary position embedding over the three axes of a video. Host-only.
#include "runtime/nn/rope.h"

#include <algorithm>
#include <cmath>

#include "runtime/nn/isa.h"
#include "runtime/nn/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/nn/rope.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "runtime/nn/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vsa::nn::HWY_NAMESPACE {

/// One token: x[i] cos[i] + x[partner of i] signed_sin[i] in every head.
void Rotate(float* x, int64_t num_heads, int64_t head_dim, const float* cos,
            const float* signed_sin) {
  record_target(HWY_TARGET);
  for (int64_t h = 0; h < num_heads; ++h, x += head_dim) {
#if HWY_TARGET == HWY_SCALAR  // vectors of one number, which have no pairs
    for (int64_t i = 0; i < head_dim; i += 2) {
      const float a = x[i];
      const float b = x[i + 1];
      x[i] = a * cos[i] + b * signed_sin[i];
      x[i + 1] = b * cos[i + 1] + a * signed_sin[i + 1];
    }
#else
    const auto rotate = [&](auto d, int64_t i) {
      const auto value = hn::LoadU(d, x + i);
      const auto turned = hn::Mul(hn::Reverse2(d, value), hn::LoadU(d, signed_sin + i));
      hn::StoreU(hn::MulAdd(value, hn::LoadU(d, cos + i), turned), d, x + i);
    };
    const hn::ScalableTag<float> d;
    const hn::CappedTag<float, 2> pair;
    int64_t i = 0;
    for (; i + Lanes() <= head_dim; i += Lanes()) rotate(d, i);
    for (; i < head_dim; i += 2) rotate(pair, i);
#endif
  }
}

}  // namespace vsa::nn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vsa::nn {

HWY_EXPORT(Rotate);

std::array<int64_t, 3> rope_split(int64_t head_dim) {
  const int64_t space = 2 * (head_dim / 6);
  return {head_dim - 2 * space, space, space};
}

Rope::Rope(Grid grid, int64_t head_dim, std::span<const int32_t> order)
    : grid_(grid), head_dim_(head_dim), order_(order) {
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

void Rope::angles(int64_t row, float* cos, float* signed_sin) const {
  const int64_t token = order_.empty() ? row : order_[static_cast<size_t>(row)];
  const std::array<int64_t, 3> position{token / (grid_.h * grid_.w), token / grid_.w % grid_.h,
                                        token % grid_.w};
  for (size_t a = 0; a < 3; ++a) {
    const Axis& axis = axes_[a];
    const int64_t at = position[a] * axis.width;
    cos = std::copy_n(axis.cos.data() + at, axis.width, cos);
    signed_sin = std::copy_n(axis.signed_sin.data() + at, axis.width, signed_sin);
  }
}

void Rope::apply(float* x, int64_t first_row, int64_t rows, int64_t num_heads) const {
  std::vector<float> cos(static_cast<size_t>(head_dim_));
  std::vector<float> sin(static_cast<size_t>(head_dim_));
  const auto rotate = VSA_NN_DISPATCH(Rotate);
  for (int64_t r = 0; r < rows; ++r) {
    angles(first_row + r, cos.data(), sin.data());
    rotate(x + r * num_heads * head_dim_, num_heads, head_dim_, cos.data(), sin.data());
  }
}

void Rope::write_tables(float* cos, float* sin) const {
  std::vector<float> both(static_cast<size_t>(head_dim_));
  std::vector<float> signs(static_cast<size_t>(head_dim_));
  for (int64_t row = 0; row < grid_.num_tokens(); ++row) {
    angles(row, both.data(), signs.data());
    for (size_t i = 0; i < both.size(); i += 2) {
      *cos++ = both[i];
      *sin++ = signs[i + 1];
    }
  }
}

}  // namespace vsa::nn
#endif
