// What holds for every sampler: order, sizes, and a run that goes on with the same bits.
#include "runtime/sampler/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/runtime_support/arrays.h"

namespace vsa::sampler {
namespace {

constexpr int64_t kSize = 12;
constexpr uint64_t kSeed = 5;

class EverySampler : public testing::TestWithParam<SchedulerKind> {
 protected:
  std::unique_ptr<Sampler> made() const {
    SchedulerConfig config{.kind = GetParam(), .shift = 3.0};
    if (GetParam() == SchedulerKind::kFewStep) config.timesteps = {1000, 800, 600, 400, 200};
    return make_sampler(make_schedule(config, 5).value(), kSize, kSeed);
  }

  /// Steps from `first` to `last`, by a model that knows only x and the step.
  static void take(Sampler& sampler, int64_t first, int64_t last, std::vector<float>& x) {
    for (int64_t i = first; i < last; ++i) {
      std::vector<float> v = test::normal_f32(kSize, static_cast<uint64_t>(100 + i));
      for (size_t j = 0; j < v.size(); ++j) v[j] += 0.5F * x[j];
      throw_if_error(sampler.step(v, x));
    }
  }
};

TEST_P(EverySampler, GoesOnWithTheSameBitsAfterAnyStep) {
  const std::vector<float> noise = test::normal_f32(kSize, 1);
  std::vector<float> want = noise;
  take(*made(), 0, 5, want);
  for (int64_t stop = 0; stop <= 5; ++stop) {
    std::vector<float> x = noise;
    const auto begun = made();
    take(*begun, 0, stop, x);
    const auto resumed = made();
    ASSERT_TRUE(resumed->resume(stop, begun->state()).ok()) << stop;
    EXPECT_EQ(resumed->steps_done(), stop);
    take(*resumed, stop, 5, x);
    EXPECT_EQ(x, want) << stop;
  }
}

TEST_P(EverySampler, ResumingTakesExactlyItsOwnState) {
  const auto begun = made();
  std::vector<float> x = test::normal_f32(kSize, 1);
  take(*begun, 0, 2, x);
  std::vector<StateTensor> state = begun->state();
  for (const int64_t steps : {-1, 6}) {
    EXPECT_THAT(made()->resume(steps, state).message(),
                testing::HasSubstr("steps_done: expected 0 to 5"));
  }
  state.push_back({.name = "another", .values = x});
  EXPECT_EQ(made()->resume(2, state).code(), StatusCode::kInvalidArgument);
  state.pop_back();
  if (state.empty()) return;
  state.back().values = state.back().values.subspan(1);
  EXPECT_THAT(made()->resume(2, state).message(), testing::HasSubstr("expected 12 elements"));
  state.pop_back();
  EXPECT_THAT(made()->resume(2, state).message(), testing::HasSubstr("got 0"));
}

TEST_P(EverySampler, CountsItsStepsAndChecksSizes) {
  const auto sampler = made();
  std::vector<float> x = test::normal_f32(kSize, 1);
  std::vector<float> shorter(kSize - 1);
  EXPECT_EQ(sampler->step(shorter, x).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(sampler->step(x, shorter).code(), StatusCode::kInvalidArgument);
  take(*sampler, 0, 5, x);
  EXPECT_EQ(sampler->steps_done(), 5);
  EXPECT_EQ(sampler->step(std::vector<float>(kSize), x).code(), StatusCode::kInvalidArgument);
}

TEST_P(EverySampler, APerfectModelIsFollowedToX0) {
  // v = noise - x0 of one x0: its line is the solution, for every sampler.
  const std::vector<float> x0 = test::normal_f32(kSize, 2);
  std::vector<float> x = test::normal_f32(kSize, 3);
  const auto sampler = made();
  for (int64_t i = 0; i < 5; ++i) {
    const auto sigma = static_cast<float>(sampler->schedule().sigmas[static_cast<size_t>(i)]);
    std::vector<float> v(kSize);
    for (size_t j = 0; j < v.size(); ++j) v[j] = (x[j] - x0[j]) / sigma;
    throw_if_error(sampler->step(v, x));
  }
  for (size_t j = 0; j < x.size(); ++j) EXPECT_NEAR(x[j], x0[j], 1e-5F);
}

TEST(FewStepNoise, HangsOnSeedAndStepAlone) {
  SchedulerConfig config = fast_wan_config();
  std::vector<std::vector<float>> ends;
  for (const uint64_t seed : {uint64_t{1}, uint64_t{1}, uint64_t{2}}) {
    const auto sampler = make_sampler(make_schedule(config, 3).value(), kSize, seed);
    std::vector<float> x(kSize, 0.5F);
    throw_if_error(sampler->step(std::vector<float>(kSize, 0.25F), x));
    ends.push_back(x);
  }
  EXPECT_EQ(ends[0], ends[1]);
  EXPECT_NE(ends[0], ends[2]);
}

INSTANTIATE_TEST_SUITE_P(Each, EverySampler, testing::ValuesIn(kSchedulerKinds),
                         [](const auto& instance) {
                           std::string kind(name(instance.param));
                           std::ranges::replace(kind, '-', '_');
                           return kind;
                         });

}  // namespace
}  // namespace vsa::sampler
