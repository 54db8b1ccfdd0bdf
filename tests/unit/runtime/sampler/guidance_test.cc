// Classifier-free guidance.
#include "runtime/sampler/guidance.h"

#include <gtest/gtest.h>

#include <vector>

namespace vsa::sampler {
namespace {

TEST(Guide, MovesAwayFromTheUnconditional) {
  const std::vector<float> uncond{1.0F, -2.0F};
  std::vector<float> cond{3.0F, 0.5F};
  guide(3.0, uncond, cond);
  EXPECT_EQ(cond, (std::vector<float>{7.0F, 5.5F}));
  guide(0.0, uncond, cond);
  EXPECT_EQ(cond, uncond);
}

TEST(Guide, OneChangesNoBitAndReadsNothing) {
  std::vector<float> cond{0.1F};
  guide(1.0, std::vector<float>{1e8F}, cond);  // 1e8 + (0.1 - 1e8) would be 0
  EXPECT_EQ(cond[0], 0.1F);
  guide(1.0, {}, cond);
  EXPECT_EQ(cond[0], 0.1F);
}

}  // namespace
}  // namespace vsa::sampler
