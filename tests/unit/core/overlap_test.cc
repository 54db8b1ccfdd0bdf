// Whether strided views share memory, against counting bytes.
#include "src/core/overlap.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>

namespace vsa {
namespace {

/// Every byte of the region, one by one; and whether one was met twice.
struct Bytes {
  std::set<int64_t> all;
  bool repeated = false;
};
Bytes bytes_of(const Region& r) {
  Bytes bytes;
  const auto visit = [&](const auto& self, size_t axis, int64_t at) -> void {
    if (axis == r.axes.size()) {
      bytes.repeated |= !bytes.all.insert(at).second;
      return;
    }
    for (int64_t i = 0; i < r.axes[axis].count; ++i) {
      self(self, axis + 1, at + i * r.axes[axis].stride_bytes);
    }
  };
  visit(visit, 0, static_cast<int64_t>(r.address));
  return bytes;
}

bool share(const Bytes& a, const Bytes& b) {
  for (const int64_t x : a.all) {
    if (b.all.contains(x)) return true;
  }
  return false;
}

Region random_region() {
  Region r{.argument = "r", .address = *rc::gen::inRange<uint64_t>(1000, 1200)};
  for (size_t i = 0; i < 4; ++i) {
    r.axes[i] = {*rc::gen::inRange<int64_t>(1, 4), *rc::gen::inRange<int64_t>(-40, 60)};
  }
  r.axes[4] = {*rc::gen::element<int64_t>(1, 2, 4), 1};
  return r;
}

RC_GTEST_PROP(Overlap, AgreesWithCountingBytes, ()) {
  const Region a = random_region();
  const Region b = random_region();
  RC_ASSERT(overlap(a, b) == share(bytes_of(a), bytes_of(b)));
  RC_ASSERT(overlap(b, a) == overlap(a, b));
}

RC_GTEST_PROP(Overlap, InjectiveMeansNoByteTwice, ()) {
  const Region a = random_region();
  if (is_injective(a)) RC_ASSERT(!bytes_of(a).repeated);
}

TEST(Overlap, ViewsOfAFusedQkvAreApart) {
  // [B, S, 3, H, D]
  std::vector<float> fused(2 * 5 * 3 * 4 * 8);
  const auto view = [&](int64_t part) {
    Tensor t = Tensor::bshd(fused.data() + part * 4 * 8, DType::kF32, {2, 4, 5, 8});
    t.stride = {5 * 3 * 4 * 8, 8, 3 * 4 * 8, 1};
    return region_of("t", t);
  };
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(is_injective(view(i)));
    for (int64_t j = 0; j < 3; ++j) EXPECT_EQ(overlap(view(i), view(j)), i == j);
  }
}

TEST(Overlap, LargeTensorsThatTouchAreApart) {
  const auto at = [](uint64_t address) {
    const Dims dims{2, 40, 210000, 128};
    return region_of("t", Tensor::bshd(reinterpret_cast<void*>(address), DType::kBF16, dims));
  };
  const uint64_t size = uint64_t{2} * 40 * 210000 * 128 * 2;
  EXPECT_FALSE(overlap(at(4096), at(4096 + size)));
  EXPECT_TRUE(overlap(at(4096), at(4096 + size - 2)));
  EXPECT_TRUE(overlap(at(4096 + size - 2), at(4096)));
}

TEST(Overlap, AddressesMustNotWrapAround) {
  const auto at = [](uint64_t address) {
    return region_of("t",
                     Tensor::bhsd(reinterpret_cast<void*>(address), DType::kF32, {1, 1, 4, 8}));
  };
  EXPECT_TRUE(is_addressable(at(UINT64_MAX - 127)));
  EXPECT_FALSE(is_addressable(at(UINT64_MAX - 126)));
}

TEST(Overlap, AxesOfOneIgnoreTheirStride) {
  Tensor t = Tensor::bhsd(reinterpret_cast<void*>(4096), DType::kF32, {1, 1, 4, 8});
  t.stride[0] = -1;
  t.stride[1] = 0;
  EXPECT_TRUE(is_injective(region_of("t", t)));
}

}  // namespace
}  // namespace vsa
