// Decides whether strided arguments share memory. Host-only.
//
// Two regions share a byte if some indices i, j give  a + sum i*s = b + sum j*t.  With one signed
// variable per distinct stride this is  sum d*s = b - a,  each d in its own interval. Taking
// strides from the largest to the smallest, only those d can succeed that leave a remainder within
// reach of the smaller strides; for nested layouts these are one or two per stride.
#include "src/core/overlap.h"

#include <algorithm>
#include <vector>

namespace vsa {
namespace {

__extension__ using Wide = __int128;  // sums of products of int64 do not overflow it

/// d * stride with d in [lo, hi].
struct Term {
  Wide stride;
  Wide lo;
  Wide hi;
};

Wide floor_div(Wide a, Wide b) { return a / b - (a % b < 0 ? 1 : 0); }  // b > 0

/// Adds the axes of a region, on the left (sign 1) or the right (sign -1) side of the equation.
void add_axes(const Region& region, int sign, std::vector<Term>& terms) {
  for (const Region::Axis& axis : region.axes) {
    if (axis.count <= 1 || axis.stride_bytes == 0) continue;
    const bool down = (axis.stride_bytes < 0) != (sign < 0);
    const Wide stride = axis.stride_bytes < 0 ? -Wide{axis.stride_bytes} : Wide{axis.stride_bytes};
    const Wide last = axis.count - 1;
    const auto same =
        std::find_if(terms.begin(), terms.end(), [&](const Term& t) { return t.stride == stride; });
    Term& term = same != terms.end() ? *same : terms.emplace_back(Term{stride, 0, 0});
    (down ? term.lo : term.hi) += down ? -last : last;
  }
}

class Search {
 public:
  explicit Search(std::vector<Term> terms) : terms_(std::move(terms)) {
    std::sort(terms_.begin(), terms_.end(),
              [](const Term& a, const Term& b) { return a.stride > b.stride; });
    reach_.resize(terms_.size() + 1, {0, 0});
    for (size_t i = terms_.size(); i-- > 0;) {
      reach_[i] = {reach_[i + 1].first + terms_[i].lo * terms_[i].stride,
                   reach_[i + 1].second + terms_[i].hi * terms_[i].stride};
    }
  }

  /// True if the terms from `i` on can sum to `rest`.
  bool can_sum_to(Wide rest, size_t i = 0) {
    if (rest < reach_[i].first || rest > reach_[i].second) return false;
    if (i == terms_.size()) return true;  // the reach of nothing is 0
    const Term& t = terms_[i];
    const Wide first = std::max(t.lo, -floor_div(reach_[i + 1].second - rest, t.stride));
    const Wide last = std::min(t.hi, floor_div(rest - reach_[i + 1].first, t.stride));
    for (Wide d = first; d <= last; ++d) {
      if (--budget_ < 0 || can_sum_to(rest - d * t.stride, i + 1)) return true;
    }
    return false;
  }

 private:
  std::vector<Term> terms_;
  std::vector<std::pair<Wide, Wide>> reach_;  // least and largest sum of the terms from i on
  int budget_ = 10000;  // nested layouts need tens; this bounds the check to some 100 us
};

std::pair<Wide, Wide> bounds(const Region& region) {
  Wide lo = region.address;
  Wide hi = region.address;
  for (const Region::Axis& axis : region.axes) {
    const Wide span = Wide{axis.count - 1} * axis.stride_bytes;
    (span < 0 ? lo : hi) += span;
  }
  return {lo, hi};
}

}  // namespace

Region region_of(std::string_view argument, const ConstTensor& tensor) {
  const int64_t size = size_bytes(tensor.dtype);
  Region region{.argument = argument, .address = reinterpret_cast<uint64_t>(tensor.data)};
  for (size_t i = 0; i < 4; ++i) {
    // The stride of an axis of extent 1 is never used and may be anything.
    region.axes[i] = {tensor.shape[i], tensor.shape[i] == 1 ? 0 : tensor.stride[i] * size};
  }
  region.axes[4] = {size, 1};
  return region;
}

Region region_of(std::string_view argument, const int32_t* data, int64_t count) {
  Region region{.argument = argument, .address = reinterpret_cast<uint64_t>(data)};
  region.axes[0] = {count, sizeof(int32_t)};
  region.axes[4] = {sizeof(int32_t), 1};
  return region;
}

bool is_addressable(const Region& region) {
  const auto [lo, hi] = bounds(region);
  return lo >= 0 && hi <= Wide{UINT64_MAX};
}

bool is_injective(const Region& region) {
  std::array<Region::Axis, 5> axes = region.axes;
  std::sort(axes.begin(), axes.end(), [](const Region::Axis& a, const Region::Axis& b) {
    return a.stride_bytes < b.stride_bytes;
  });
  Wide reach = 0;
  for (const Region::Axis& axis : axes) {
    if (axis.count <= 1) continue;
    if (axis.stride_bytes <= reach) return false;
    reach += Wide{axis.count - 1} * axis.stride_bytes;
  }
  return true;
}

bool overlap(const Region& a, const Region& b) {
  const auto [a_lo, a_hi] = bounds(a);
  const auto [b_lo, b_hi] = bounds(b);
  if (a_hi < b_lo || b_hi < a_lo) return false;
  std::vector<Term> terms;
  add_axes(a, 1, terms);
  add_axes(b, -1, terms);
  return Search(std::move(terms)).can_sum_to(Wide{b.address} - Wide{a.address});
}

}  // namespace vsa
