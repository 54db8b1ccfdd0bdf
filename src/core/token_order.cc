// Orders of the tokens of a video: raster order, and the generalised Hilbert curve through all of
// it or through each frame. Host-only.
//
// The curve fills a box by filling smaller boxes, each along three axes of its own:
//
//   wide      two halves of the first axis, one behind the other
//   flat      there along the first half of the longer of the other axes, across along all of the
//             first axis, and back along the half that is left
//   else      the same in both other axes: five boxes
//
// A box that is one token thick along two axes is a straight line. Halves are made even where they
// can be, because a box of even length ends beside the place where it began. The rule is that of
// the generalised Hilbert curve as Jenga (arXiv 2505.16864) uses it, so that selections made for
// its blocks hold here: a half of an axis that points backwards is rounded away from zero.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>

#include "src/core/grid_check.h"
#include "vsa/tiling.h"

namespace vsa {
namespace {

/// A vector in the grid, of which the axes of a box have one number that is not 0.
struct Vec {
  int64_t w = 0, h = 0, f = 0;

  friend Vec operator+(const Vec& a, const Vec& b) { return {a.w + b.w, a.h + b.h, a.f + b.f}; }
  friend Vec operator-(const Vec& a, const Vec& b) { return {a.w - b.w, a.h - b.h, a.f - b.f}; }
  friend Vec operator-(const Vec& a) { return {-a.w, -a.h, -a.f}; }
};

/// Of a vector along one axis.
int64_t length(const Vec& v) { return std::abs(v.w + v.h + v.f); }
int64_t sign(int64_t x) { return x > 0 ? 1 : (x < 0 ? -1 : 0); }
Vec unit(const Vec& v) { return {sign(v.w), sign(v.h), sign(v.f)}; }

/// About half of an axis.
Vec half(const Vec& axis) {
  // A shift to the right rounds down, also of negative numbers.
  const Vec h{axis.w >> 1, axis.h >> 1, axis.f >> 1};
  return length(h) % 2 != 0 && length(axis) > 2 ? h + unit(axis) : h;
}

/// Appends the tokens of boxes along the curve.
class CurveWalk {
 public:
  explicit CurveWalk(const Grid& grid) : grid_(grid) {
    tokens_.reserve(static_cast<size_t>(grid.num_tokens()));
  }
  std::vector<int32_t> tokens() && { return std::move(tokens_); }

  /// The box at `at` whose axes are a, b and c; it begins at `at` and ends beside at + a.
  void box(const Vec& at, const Vec& a, const Vec& b, const Vec& c) {
    const int64_t la = length(a);
    const int64_t lb = length(b);
    const int64_t lc = length(c);
    if (lb == 1 && lc == 1) return line(at, a);
    if (la == 1 && lc == 1) return line(at, b);
    if (la == 1 && lb == 1) return line(at, c);
    const Vec a2 = half(a);
    const Vec b2 = half(b);
    const Vec c2 = half(c);
    const Vec last_a = a - unit(a);  // to the last token along each axis, or of its first half
    const Vec last_b2 = b2 - unit(b);
    const Vec last_c2 = c2 - unit(c);
    const Vec last_c = c - unit(c);
    if (2 * la > 3 * lb && 2 * la > 3 * lc) {
      box(at, a2, b, c);
      box(at + a2, a - a2, b, c);
    } else if (3 * lb > 4 * lc) {
      box(at, b2, c, a2);
      box(at + b2, a, b - b2, c);
      box(at + last_a + last_b2, -b2, c, -(a - a2));
    } else if (3 * lc > 4 * lb) {
      box(at, c2, a2, b);
      box(at + c2, a, b, c - c2);
      box(at + last_a + last_c2, -c2, -(a - a2), b);
    } else {
      box(at, b2, c2, a2);
      box(at + b2, c, a2, b - b2);
      box(at + last_b2 + last_c, a, -b2, -(c - c2));
      box(at + last_a + b2 + last_c, -c, -(a - a2), b - b2);
      box(at + last_a + last_b2, -b2, c2, -(a - a2));
    }
  }

 private:
  void line(Vec at, const Vec& along) {
    for (int64_t i = length(along); i > 0; --i, at = at + unit(along)) {
      tokens_.push_back(static_cast<int32_t>((at.f * grid_.h + at.h) * grid_.w + at.w));
    }
  }

  const Grid grid_;
  std::vector<int32_t> tokens_;
};

/// The curve through a grid; it runs along the longest axis.
std::vector<int32_t> curve(const Grid& grid) {
  const Vec w{.w = grid.w};
  const Vec h{.h = grid.h};
  const Vec f{.f = grid.f};
  CurveWalk walk(grid);
  if (grid.w >= grid.h && grid.w >= grid.f) {
    walk.box({}, w, h, f);
  } else if (grid.h >= grid.f) {
    walk.box({}, h, w, f);
  } else {
    walk.box({}, f, w, h);
  }
  return std::move(walk).tokens();
}

/// A curve through each frame, mirrored so that it begins in the quarter where the one before
/// ended.
std::vector<int32_t> curve_of_frames(const Grid& grid) {
  const std::vector<int32_t> frame = curve({.f = 1, .h = grid.h, .w = grid.w});
  std::vector<int32_t> tokens;
  tokens.reserve(static_cast<size_t>(grid.num_tokens()));
  bool mirror_h = false;
  bool mirror_w = false;
  for (int64_t f = 0; f < grid.f; ++f) {
    int64_t h = 0;
    int64_t w = 0;
    for (const int32_t token : frame) {
      h = token / grid.w;
      w = token % grid.w;
      if (mirror_h) h = grid.h - 1 - h;
      if (mirror_w) w = grid.w - 1 - w;
      tokens.push_back(static_cast<int32_t>((f * grid.h + h) * grid.w + w));
    }
    mirror_h = 2 * h >= grid.h;
    mirror_w = 2 * w >= grid.w;
  }
  return tokens;
}

}  // namespace

std::string_view name(TokenOrder order) {
  switch (order) {
    case TokenOrder::kRaster:
      return "raster";
    case TokenOrder::kGilbert:
      return "gilbert";
    case TokenOrder::kGilbertFrames:
      return "gilbert-frames";
  }
  return "unknown";
}

Result<TokenOrder> token_order_from_name(std::string_view text) {
  std::vector<std::string_view> names;
  for (const TokenOrder order : kTokenOrders) {
    if (text == name(order)) return order;
    names.push_back(name(order));
  }
  return invalid_argument(
      fmt::format("[token_order] order: expected {}, got {}", fmt::join(names, ", "), text));
}

Status check_grid(std::string_view operation, const Grid& g) {
  if (g.f < 1 || g.h < 1 || g.w < 1) {
    return invalid_argument(
        fmt::format("[{}] grid: expected three extents of at least 1, got "
                    "{},{},{}",
                    operation, g.f, g.h, g.w));
  }
  if (bounded_product(g.f, g.h, g.w) >= 0) return {};
  return invalid_argument(fmt::format("[{}] grid: expected at most {} tokens, got {},{},{}",
                                      operation, kMaxTokens, g.f, g.h, g.w));
}

Result<std::vector<int32_t>> tokens_in_order(TokenOrder order, Grid grid) {
  VSA_TRY(check_grid("token_order", grid));
  switch (order) {
    case TokenOrder::kRaster: {
      std::vector<int32_t> tokens(static_cast<size_t>(grid.num_tokens()));
      std::iota(tokens.begin(), tokens.end(), 0);
      return tokens;
    }
    case TokenOrder::kGilbert:
      return curve(grid);
    case TokenOrder::kGilbertFrames:
      return curve_of_frames(grid);
  }
  return invalid_argument(fmt::format(
      "[token_order] order: expected one of the enumerators, got {}", static_cast<int>(order)));
}

}  // namespace vsa
