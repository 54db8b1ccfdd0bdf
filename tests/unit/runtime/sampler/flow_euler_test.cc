// The sampler's constants, guidance and step.
#include "runtime/sampler/flow_euler.h"

#include <gtest/gtest.h>

#include <cmath>

namespace vsa::sampler {
namespace {

TEST(FlowSigmas, ShiftIsAppliedOnce) {
  const std::vector<double> sigmas = flow_sigmas(4, 3.0).value();
  // 3u / (1 + 2u) at 1, 3/4, 1/2, 1/4, 0. Shifted twice it would be 1, .9643, .9, .75, 0.
  const std::vector<double> want{1.0, 0.9, 0.75, 0.5, 0.0};
  ASSERT_EQ(sigmas.size(), 5U);
  for (size_t i = 0; i < 5; ++i) EXPECT_NEAR(sigmas[i], want[i], 1e-15);
  EXPECT_EQ(flow_sigmas(1, 2.0).value(), (std::vector<double>{1.0, 0.0}));
}

TEST(FlowSigmas, RefusesBadNumbers) {
  EXPECT_EQ(flow_sigmas(0, 1.0).status().code(), StatusCode::kInvalidArgument);
  for (const double bad : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    EXPECT_EQ(flow_sigmas(4, bad).status().code(), StatusCode::kInvalidArgument);
  }
}

TEST(Guide, MovesAwayFromTheUnconditional) {
  const std::vector<float> uncond{1.0F, -2.0F};
  std::vector<float> cond{3.0F, 0.5F};
  guide(3.0, uncond, cond);
  EXPECT_EQ(cond, (std::vector<float>{7.0F, 5.5F}));
  guide(0.0, uncond, cond);
  EXPECT_EQ(cond, uncond);
}

TEST(Guide, OneChangesNoBit) {
  const std::vector<float> uncond{1e8F};
  std::vector<float> cond{0.1F};  // 1e8 + (0.1 - 1e8) would be 0
  guide(1.0, uncond, cond);
  EXPECT_EQ(cond[0], 0.1F);
}

TEST(EulerStep, ReachesX0AlongTheStraightLine) {
  // x = (1 - s) x0 + s noise and v = noise - x0: any steps end exactly at x0.
  const std::vector<float> x0{0.5F, -0.25F}, noise{2.0F, 1.0F};
  const std::vector<float> v{noise[0] - x0[0], noise[1] - x0[1]};
  std::vector<float> x = noise;
  const std::vector<double> sigmas = flow_sigmas(5, 2.0).value();
  for (size_t i = 0; i < 5; ++i) euler_step(sigmas[i], sigmas[i + 1], v, x);
  EXPECT_NEAR(x[0], x0[0], 5 * 0x1p-23);
  EXPECT_NEAR(x[1], x0[1], 5 * 0x1p-23);
}

}  // namespace
}  // namespace vsa::sampler
