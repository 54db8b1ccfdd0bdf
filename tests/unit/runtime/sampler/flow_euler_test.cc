// The step of the Euler sampler.
#include "runtime/sampler/flow_euler.h"

#include <gtest/gtest.h>

#include <vector>

namespace vsa::sampler {
namespace {

TEST(FlowEuler, ReachesX0AlongTheStraightLine) {
  // x = (1 - s) x0 + s noise and v = noise - x0: any steps end exactly at x0.
  const std::vector<float> x0{0.5F, -0.25F}, noise{2.0F, 1.0F};
  const std::vector<float> v{noise[0] - x0[0], noise[1] - x0[1]};
  std::vector<float> x = noise;
  FlowEuler sampler(make_schedule({.kind = SchedulerKind::kEulerPlain, .shift = 2.0}, 5).value(),
                    2);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(sampler.step(v, x).ok());
  EXPECT_NEAR(x[0], x0[0], 5 * 0x1p-23);
  EXPECT_NEAR(x[1], x0[1], 5 * 0x1p-23);
}

}  // namespace
}  // namespace vsa::sampler
