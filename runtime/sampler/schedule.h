// The noise levels and timesteps of a run. Host-only.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/sampler/scheduler_config.h"
#include "vsa/status.h"

namespace vsa::sampler {

/// Where a run goes: step i takes x from sigmas[i] to sigmas[i + 1].
struct Schedule {
  SchedulerKind kind = SchedulerKind::kUniPc;
  std::vector<double> sigmas;     ///< [steps + 1], falling to 0
  std::vector<double> timesteps;  ///< [steps], what the transformer is given

  int64_t steps() const { return static_cast<int64_t>(timesteps.size()); }
};

/// The levels of n steps, N = num_train_timesteps, shift(u) = k u / (1 + (k - 1) u). The three
/// UniPC differ here and nowhere else:
///
///   kind             sigma_i, i < n                                                   timestep
///   unipc            shift(1 - (1 - 1/N) i/n), 1e-6 less if it is 1                   cut off
///   unipc-wan        shift(a (1 - i/n)), a = 1 - 1/N                                  cut off
///   unipc-fastvideo  shift(shift(a) (1 - i/n)): the upper end is shifted twice        cut off
///   euler            shift(u), u in n even steps from shift(1) to shift(1/N), both    N sigma
///                    ends included: all but the first are shifted twice
///   euler-plain      shift(1 - i/n)                                                   N sigma
///   few-step         that of the table shift(j/N), j = 1..N, whose N sigma is nearest as listed
///
/// and sigma_n = 0. "Cut off" is N sigma without its fraction, so a run of unipc begins with 999.
/// Each level is rounded to f32 where its original does that; the levels of euler-plain, which has
/// no original, are f64.
/// @return InvalidArgument if steps is not 1 to N (kFewStep: the number of its timesteps), shift is
///         not a positive number, or the timesteps are not falling numbers from 1 to N
Result<Schedule> make_schedule(const SchedulerConfig& config, int64_t steps);

}  // namespace vsa::sampler
