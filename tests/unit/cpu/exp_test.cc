// 2^x of every compiled target that this machine can run: by VSA_ISA, else the best one.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "src/cpu/support/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/unit/cpu/exp_test.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "src/cpu/support/exp-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vsa::cpu::HWY_NAMESPACE {

void Exp2OfArray(std::vector<float>& x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<float> d;
  x.resize((x.size() + hn::Lanes(d) - 1) / hn::Lanes(d) * hn::Lanes(d), 0.0F);
  for (size_t i = 0; i < x.size(); i += hn::Lanes(d)) {
    hn::StoreU(Exp2(d, hn::LoadU(d, x.data() + i)), d, x.data() + i);
  }
}

}  // namespace vsa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vsa::cpu {
HWY_EXPORT(Exp2OfArray);

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

float exp2_of(float x) {
  std::vector<float> values{x};
  VSA_CPU_DISPATCH(Exp2OfArray)(values);
  return values[0];
}

TEST(Exp2, RelativeErrorIsBelowTheStatedBound) {
  // All floats of some binades and a fine grid of the others, on both sides of 0.
  std::vector<float> x;
  for (float v = 0.25F; v <= 1.0F; v = std::nextafter(v, kInf)) {
    if (x.size() % 8 == 0) x.push_back(v);
    x.push_back(-v);
  }
  for (int i = -126 * 4096; i <= 126 * 4096; ++i) x.push_back(static_cast<float>(i) / 4096.0F);
  std::vector<float> got = x;
  VSA_CPU_DISPATCH(Exp2OfArray)(got);
  double worst = 0.0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double want = std::exp2(static_cast<double>(x[i]));
    const double error = std::abs(static_cast<double>(got[i]) - want) / want;
    ASSERT_LT(error, 2.5e-7) << "at " << x[i];
    worst = std::max(worst, error);
  }
  RecordProperty("worst_relative_error", std::to_string(worst * 1e9) + "e-9");
}

TEST(Exp2, ExactAtIntegers) {
  for (int n = -126; n <= 127; ++n) {
    EXPECT_EQ(exp2_of(static_cast<float>(n)), std::ldexp(1.0F, n));
  }
}

TEST(Exp2, NothingIsLeftBelowTheSmallestNormalNumber) {
  for (const float x : {-126.00001F, -127.0F, -1e6F, -3e38F, -kInf}) EXPECT_EQ(exp2_of(x), 0.0F);
}

TEST(Exp2, NanStaysNan) {
  EXPECT_TRUE(std::isnan(exp2_of(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_TRUE(std::isnan(exp2_of(-std::numeric_limits<float>::quiet_NaN())));
}

}  // namespace
}  // namespace vsa::cpu
#endif
