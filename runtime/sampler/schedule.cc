// The noise levels and timesteps of a run. Host-only.
//
// Compiled without contraction to fused multiply-adds (runtime/CMakeLists.txt): a timestep is cut
// off to an integer, which must not depend on the machine.
#include "runtime/sampler/schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstddef>

namespace vsa::sampler {
namespace {

/// In the precision of its argument, as the originals shift some levels in f32.
template <class T>
T shifted(double shift, T sigma) {
  const auto k = static_cast<T>(shift);
  return k * sigma / (T{1} + static_cast<T>(shift - 1.0) * sigma);
}

/// The first n of n + 1 even numbers from `first` to `last`; the last of n is not `last`.
std::vector<double> even_numbers(double first, double last, int64_t n) {
  const double step = (last - first) / static_cast<double>(n);
  std::vector<double> numbers;
  for (int64_t i = 0; i < n; ++i) numbers.push_back(static_cast<double>(i) * step + first);
  return numbers;
}

/// Rounded to f32, in which the originals store it.
double rounded_to_f32(double value) { return static_cast<double>(static_cast<float>(value)); }

/// The levels of a UniPC before they are shifted.
std::vector<double> unshifted(const SchedulerConfig& config, int64_t steps) {
  const auto train_steps = static_cast<double>(config.num_train_timesteps);
  if (config.kind == SchedulerKind::kUniPc) return even_numbers(1.0, 1.0 / train_steps, steps);
  const auto strongest = static_cast<float>(1.0 - 1.0 / train_steps);
  const bool twice = config.kind == SchedulerKind::kUniPcFastVideo;
  return even_numbers(static_cast<double>(twice ? shifted(config.shift, strongest) : strongest),
                      0.0, steps);
}

Schedule unipc(const SchedulerConfig& config, int64_t steps) {
  // ln(1 - sigma) of the first level must be finite.
  constexpr double kFromOne = 1e-6;
  Schedule schedule{.kind = config.kind, .sigmas = {}, .timesteps = {}};
  for (const double u : unshifted(config, steps)) {
    double sigma = shifted(config.shift, u);
    const bool first = schedule.sigmas.empty();
    if (config.kind == SchedulerKind::kUniPc && first && std::fabs(sigma - 1.0) < kFromOne) {
      sigma -= kFromOne;
    }
    schedule.sigmas.push_back(rounded_to_f32(sigma));
    schedule.timesteps.push_back(
        std::trunc(sigma * static_cast<double>(config.num_train_timesteps)));
  }
  schedule.sigmas.push_back(0.0);
  return schedule;
}

/// Level j/N of the table that FlowMatchEulerDiscreteScheduler is made with.
float table_sigma(const SchedulerConfig& config, int64_t j) {
  return shifted(config.shift,
                 static_cast<float>(j) / static_cast<float>(config.num_train_timesteps));
}

Schedule euler(const SchedulerConfig& config, int64_t steps) {
  const auto train_steps = static_cast<double>(config.num_train_timesteps);
  const double first = static_cast<double>(table_sigma(config, config.num_train_timesteps));
  const double last = static_cast<double>(table_sigma(config, 1));
  std::vector<double> times{first * train_steps};
  if (steps > 1) {
    times = even_numbers(first * train_steps, last * train_steps, steps - 1);
    times.push_back(last * train_steps);
  }
  Schedule schedule{.kind = config.kind, .sigmas = {}, .timesteps = {}};
  for (const double t : times) {
    const auto sigma = static_cast<float>(shifted(config.shift, t / train_steps));
    schedule.sigmas.push_back(static_cast<double>(sigma));
    schedule.timesteps.push_back(
        static_cast<double>(sigma * static_cast<float>(config.num_train_timesteps)));
  }
  schedule.sigmas.push_back(0.0);
  return schedule;
}

Schedule euler_plain(const SchedulerConfig& config, int64_t steps) {
  Schedule schedule{.kind = config.kind, .sigmas = {}, .timesteps = {}};
  for (int64_t i = 0; i <= steps; ++i) {
    const double u = 1.0 - static_cast<double>(i) / static_cast<double>(steps);
    schedule.sigmas.push_back(shifted(config.shift, u));
    if (i == steps) break;
    schedule.timesteps.push_back(static_cast<double>(config.num_train_timesteps) *
                                 schedule.sigmas.back());
  }
  return schedule;
}

/// The level whose timestep in the table is nearest to t; of two as near, the stronger.
double nearest_sigma(const SchedulerConfig& config, int64_t t) {
  const auto train_steps = static_cast<float>(config.num_train_timesteps);
  double nearest = 0.0;
  double distance = HUGE_VAL;
  for (int64_t j = config.num_train_timesteps; j >= 1; --j) {
    const float sigma = table_sigma(config, j);
    const double off = std::fabs(static_cast<double>(sigma * train_steps) - static_cast<double>(t));
    if (off < distance) {
      distance = off;
      nearest = static_cast<double>(sigma);
    }
  }
  return nearest;
}

Result<Schedule> few_step(const SchedulerConfig& config, int64_t steps) {
  const auto listed = fmt::format("{}", fmt::join(config.timesteps, ", "));
  if (config.timesteps.empty()) {
    return invalid_argument("[sampler] timesteps: expected a list for few-step, got none");
  }
  for (size_t i = 0; i < config.timesteps.size(); ++i) {
    const int64_t highest = i == 0 ? config.num_train_timesteps : config.timesteps[i - 1] - 1;
    if (config.timesteps[i] >= 1 && config.timesteps[i] <= highest) continue;
    return invalid_argument(
        fmt::format("[sampler] timesteps: expected falling numbers from {} to 1, got {}",
                    config.num_train_timesteps, listed));
  }
  if (steps != std::ssize(config.timesteps)) {
    return invalid_argument(
        fmt::format("[sampler] steps: expected {}, one for each of the timesteps {}, got {}",
                    config.timesteps.size(), listed, steps));
  }
  Schedule schedule{.kind = config.kind, .sigmas = {}, .timesteps = {}};
  for (const int64_t t : config.timesteps) {
    schedule.sigmas.push_back(nearest_sigma(config, t));
    schedule.timesteps.push_back(static_cast<double>(t));
  }
  schedule.sigmas.push_back(0.0);
  return schedule;
}

/// Levels that fall, in the precision they are kept in; UniPC takes the logarithm of 1 - sigma.
Status check_falling(const SchedulerConfig& config, const Schedule& schedule) {
  const bool unipc_kind = config.kind == SchedulerKind::kUniPc ||
                          config.kind == SchedulerKind::kUniPcWan ||
                          config.kind == SchedulerKind::kUniPcFastVideo;
  bool falling = !unipc_kind || schedule.sigmas[0] < 1.0;
  for (size_t i = 0; i + 1 < schedule.sigmas.size(); ++i) {
    falling = falling && schedule.sigmas[i] > schedule.sigmas[i + 1];
  }
  if (falling) return {};
  return invalid_argument(
      fmt::format("[sampler] shift: expected a value with which the levels of {} fall over {} "
                  "steps in f32, got {}",
                  name(config.kind), schedule.steps(), config.shift));
}

Schedule levels(const SchedulerConfig& config, int64_t steps) {
  switch (config.kind) {
    case SchedulerKind::kEuler:
      return euler(config, steps);
    case SchedulerKind::kEulerPlain:
      return euler_plain(config, steps);
    default:
      return unipc(config, steps);
  }
}

}  // namespace

Result<Schedule> make_schedule(const SchedulerConfig& config, int64_t steps) {
  if (!std::isfinite(config.shift) || config.shift <= 0.0) {
    return invalid_argument(
        fmt::format("[sampler] shift: expected more than 0, got {}", config.shift));
  }
  if (config.kind == SchedulerKind::kFewStep) return few_step(config, steps);
  if (steps < 1 || steps > config.num_train_timesteps) {
    return invalid_argument(fmt::format("[sampler] steps: expected 1 to {}, got {}",
                                        config.num_train_timesteps, steps));
  }
  Schedule schedule = levels(config, steps);
  VSA_TRY(check_falling(config, schedule));
  return schedule;
}

}  // namespace vsa::sampler
