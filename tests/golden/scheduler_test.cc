// Whole runs of the samplers against those of diffusers, Wan and FastVideo (README.md here).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "runtime/io/safetensors.h"
#include "runtime/sampler/few_step.h"
#include "runtime/sampler/sampler.h"
#include "tests/runtime_support/arrays.h"
#include "tests/runtime_support/stored_tensors.h"

namespace vsa::sampler {
namespace {

using test::relative_l2;

using Values = std::vector<float>;

// A step is a dozen f32 operations on numbers of order 1, so 1e-6 of their size; the rest is for
// the few numbers that UniPC divides by small differences of logarithms, where libm and PyTorch
// differ in the last bit. A wrong formula is off by more than 1e-3.
constexpr double kStepError = 1e-5;
constexpr double kRunError = 1e-4;

class SchedulerGolden : public testing::Test {
 protected:
  SchedulerGolden()
      : file_(io::SafetensorsFile::open(std::filesystem::path(VSA_SOURCE_DIR) /
                                        "tests/golden/schedulers.safetensors")
                  .value()) {}

  Values golden(const std::string& name) const { return test::golden_tensor(file_, name).values; }

  /// The stand-in for a model that the golden runs had.
  Values predict(int64_t step, const Values& x) const {
    Values v(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      v[i] = 0.6F * x[i] - 0.4F * x[(i + 1) % x.size()];
      v[i] += push_[static_cast<size_t>(step) * x.size() + i];
    }
    return v;
  }

  /// A run by `kind`; every step from the golden x before it, and once from its own.
  void expect_run(SchedulerKind kind, double shift, int64_t steps) const {
    const std::string run = fmt::format("{}.shift{}.steps{}", name(kind), shift, steps);
    const Schedule schedule = make_schedule({.kind = kind, .shift = shift}, steps).value();
    expect_levels(schedule, run);
    const Values want = golden(run + ".x");
    const size_t size = noise_.size();
    const auto single = make_sampler(schedule, std::ssize(noise_), 0);
    const auto whole = make_sampler(schedule, std::ssize(noise_), 0);
    Values x = noise_;
    for (int64_t i = 0; i < steps; ++i) {
      const auto after = std::span(want).subspan(static_cast<size_t>(i) * size, size);
      Values from = noise_;
      if (i > 0) from.assign(after.data() - size, after.data());
      throw_if_error(single->step(predict(i, from), from));
      EXPECT_LT(relative_l2(from, after), kStepError) << run << " step " << i;
      throw_if_error(whole->step(predict(i, x), x));
      EXPECT_LT(relative_l2(x, after), kRunError) << run << " up to step " << i;
    }
  }

  void expect_levels(const Schedule& schedule, const std::string& run) const {
    const Values sigmas = golden(run + ".sigmas");
    const Values timesteps = golden(run + ".timesteps");
    ASSERT_EQ(schedule.sigmas.size(), sigmas.size()) << run;
    ASSERT_EQ(schedule.timesteps.size(), timesteps.size()) << run;
    for (size_t i = 0; i < sigmas.size(); ++i) {
      EXPECT_EQ(static_cast<float>(schedule.sigmas[i]), sigmas[i]) << run << " level " << i;
    }
    for (size_t i = 0; i < timesteps.size(); ++i) {
      EXPECT_EQ(schedule.timesteps[i], static_cast<double>(timesteps[i])) << run << " step " << i;
    }
  }

  void expect_runs(SchedulerKind kind) const {
    for (const double shift : {1.0, 3.0, 8.0}) {
      for (const int64_t steps : {1, 2, 4, 10, 50}) expect_run(kind, shift, steps);
    }
  }

  void expect_few_steps(const std::string& run, const SchedulerConfig& config) const {
    const Schedule schedule = make_schedule(config, std::ssize(config.timesteps)).value();
    expect_levels(schedule, run);
    const Values want = golden(run + ".x");
    const Values fresh = golden("fresh");
    const size_t size = noise_.size();
    Values x = noise_;
    for (size_t i = 0; i < config.timesteps.size(); ++i) {
      const bool last = i + 1 == config.timesteps.size();
      FewStep::renoise(schedule.sigmas[i], schedule.sigmas[i + 1],
                       last ? std::span<const float>() : std::span(fresh).subspan(i * size, size),
                       predict(static_cast<int64_t>(i), x), x);
      EXPECT_LT(relative_l2(x, std::span(want).subspan(i * size, size)), kStepError)
          << run << " step " << i;
    }
  }

  io::SafetensorsFile file_;
  Values noise_ = golden("noise");
  Values push_ = golden("push");
};

TEST_F(SchedulerGolden, UniPcOfDiffusers) { expect_runs(SchedulerKind::kUniPc); }
TEST_F(SchedulerGolden, UniPcOfWan) { expect_runs(SchedulerKind::kUniPcWan); }
TEST_F(SchedulerGolden, UniPcOfFastVideo) { expect_runs(SchedulerKind::kUniPcFastVideo); }
TEST_F(SchedulerGolden, EulerOfDiffusers) { expect_runs(SchedulerKind::kEuler); }
TEST_F(SchedulerGolden, FewStepsOfFastWan) {
  expect_few_steps("few-step.fastwan", fast_wan_config());
}
TEST_F(SchedulerGolden, FewStepsAtOtherTimesteps) {
  expect_few_steps(
      "few-step.four",
      {.kind = SchedulerKind::kFewStep, .shift = 5.0, .timesteps = {1000, 750, 500, 250}});
}

TEST_F(SchedulerGolden, TheVariantsOfUniPcAreOtherFunctions) {
  const Values base = golden("unipc.shift3.steps4.x");
  for (const char* other : {"unipc-wan", "unipc-fastvideo", "euler"}) {
    EXPECT_GT(relative_l2(golden(fmt::format("{}.shift3.steps4.x", other)), base), 10 * kRunError)
        << other;
  }
}

}  // namespace
}  // namespace vsa::sampler
