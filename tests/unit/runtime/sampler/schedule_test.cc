// Noise levels and timesteps: the traps, and what is refused. Golden runs are in tests/golden.
#include "runtime/sampler/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace vsa::sampler {
namespace {

Schedule made(SchedulerKind kind, int64_t steps, double shift) {
  return make_schedule({.kind = kind, .shift = shift}, steps).value();
}

void expect_sigmas(const Schedule& schedule, const std::vector<double>& want, double tolerance) {
  ASSERT_EQ(schedule.sigmas.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(schedule.sigmas[i], want[i], tolerance) << i;
  }
}

TEST(Schedule, PlainLevelsAreShiftedOnce) {
  // 3u / (1 + 2u) at 1, 3/4, 1/2, 1/4, 0. Shifted twice it would be 1, .9643, .9, .75, 0.
  const Schedule schedule = made(SchedulerKind::kEulerPlain, 4, 3.0);
  expect_sigmas(schedule, {1.0, 0.9, 0.75, 0.5, 0.0}, 1e-15);
  EXPECT_EQ(schedule.timesteps[0], 1000.0);
  EXPECT_EQ(schedule.timesteps[2], 750.0);
  EXPECT_EQ(made(SchedulerKind::kEulerPlain, 1, 2.0).sigmas, (std::vector<double>{1.0, 0.0}));
}

TEST(Schedule, W07_EulerOfDiffusersShiftsTwice) {
  const Schedule schedule = made(SchedulerKind::kEuler, 4, 3.0);
  expect_sigmas(schedule, {1.0, 0.857692, 0.602151, 0.008929, 0.0}, 1e-6);
  EXPECT_EQ(schedule.timesteps[0], 1000.0);
}

TEST(Schedule, W08_W09_UniPcBeginsAt999AndCutsOffTimesteps) {
  const Schedule schedule = made(SchedulerKind::kUniPc, 4, 3.0);
  expect_sigmas(schedule, {0.999999, 0.90012, 0.750375, 0.500999, 0.0}, 1e-6);
  EXPECT_EQ(schedule.timesteps, (std::vector<double>{999, 900, 750, 500}));
}

TEST(Schedule, W08_WanAndFastVideoDifferAtTheUpperEnd) {
  const Schedule wan = made(SchedulerKind::kUniPcWan, 4, 3.0);
  expect_sigmas(wan, {0.999666, 0.89964, 0.749625, 0.499667, 0.0}, 1e-6);
  EXPECT_EQ(wan.timesteps, (std::vector<double>{999, 899, 749, 499}));
  expect_sigmas(made(SchedulerKind::kUniPcFastVideo, 4, 3.0),
                {0.999889, 0.89988, 0.749875, 0.499889, 0.0}, 1e-6);
}

TEST(Schedule, FewStepTakesTheNearestLevelOfTheTable) {
  const Schedule schedule = make_schedule(fast_wan_config(), 3).value();
  expect_sigmas(schedule, {1.0, 0.75676, 0.52174, 0.0}, 1e-5);
  EXPECT_EQ(schedule.timesteps, (std::vector<double>{1000, 757, 522}));
}

TEST(Schedule, RefusesBadNumbers) {
  for (const SchedulerKind kind : kSchedulerKinds) {
    SchedulerConfig config{.kind = kind, .shift = 3.0};
    if (kind == SchedulerKind::kFewStep) config.timesteps = {1000, 500};
    for (const int64_t steps : {-1, 0, 1001}) {
      EXPECT_EQ(make_schedule(config, steps).status().code(), StatusCode::kInvalidArgument)
          << name(kind) << steps;
    }
    for (const double bad : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
      config.shift = bad;
      EXPECT_EQ(make_schedule(config, 2).status().code(), StatusCode::kInvalidArgument)
          << name(kind) << bad;
    }
  }
}

TEST(Schedule, RefusesAShiftThatLeavesNoLevelsInF32) {
  // 1 - sigma of the first levels is below f32, whose logarithm UniPC needs.
  const auto refused = make_schedule({.kind = SchedulerKind::kUniPc, .shift = 1e9}, 4);
  EXPECT_THAT(refused.status().message(), testing::HasSubstr("levels of unipc fall over 4 steps"));
  EXPECT_TRUE(make_schedule({.kind = SchedulerKind::kUniPc, .shift = 100.0}, 1000).ok());
}

TEST(Schedule, RefusesTimestepsThatDoNotFall) {
  for (const std::vector<int64_t>& bad :
       {std::vector<int64_t>{}, {500, 500}, {500, 600}, {1001, 5}, {5, 0}}) {
    const SchedulerConfig config{.kind = SchedulerKind::kFewStep, .timesteps = bad};
    EXPECT_THAT(make_schedule(config, std::ssize(bad)).status().message(),
                testing::HasSubstr("[sampler] timesteps: expected"));
  }
  EXPECT_THAT(
      make_schedule(fast_wan_config(), 4).status().message(),
      testing::HasSubstr("steps: expected 3, one for each of the timesteps 1000, 757, 522"));
}

}  // namespace
}  // namespace vsa::sampler
