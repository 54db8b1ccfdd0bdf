// Checks contestants, then times them interleaved. Host-only.
#include "cli/bench/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "cli/bench/peak_memory.h"
#include "cli/common/failure.h"

namespace vsa::cli {
namespace {

/// Milliseconds of wall-clock time, the mean of that many calls.
Result<double> wall_ms(const Contestant& x, int64_t times) {
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < times; ++i) VSA_TRY(x.run());
  const auto passed = std::chrono::steady_clock::now() - start;
  return std::chrono::duration<double, std::milli>(passed).count() / static_cast<double>(times);
}

/// Milliseconds on the device.
Result<double> device_ms(const Contestant& x, DeviceClock& clock) {
  clock.start(*x.device);
  VSA_TRY(x.run());
  return clock.stop_ms(*x.device);
}

}  // namespace

double quantile(std::vector<double> samples, double share) {
  std::ranges::sort(samples);
  const double at = share * static_cast<double>(samples.size() - 1);
  const auto low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, samples.size() - 1);
  return samples[low] + (at - static_cast<double>(low)) * (samples[high] - samples[low]);
}

double iqr(const std::vector<double>& samples) {
  return quantile(samples, 0.75) - quantile(samples, 0.25);
}

void check_all(const BenchCase& c, std::vector<Measured>& all, ProgressBar& bar,
               const InterruptScope& interrupt) {
  for (size_t i = 0; i < all.size(); ++i) {
    bar.update(c.name + " check", static_cast<int64_t>(i), std::ssize(all));
    interrupt.check();
    Contestant& x = all[i].contestant;
    if (!all[i].ran()) continue;
    const PeakMemory memory;
    const Result<double> first_ms = wall_ms(x, 1);
    const std::optional<int64_t> peak = memory.extra_bytes();
    if (first_ms.status().code() == StatusCode::kUnsupported) {
      x.refusal = of_stage(first_ms.status().message());
      continue;
    }
    check(first_ms.status());
    if (x.device) {
      x.device->fetch();
    } else {
      // A sample lasts at least 1 ms, a thousand times what reading the clock costs.
      all[i].inner = std::max<int64_t>(1, static_cast<int64_t>(1.0 / *first_ms));
    }
    if (!x.check) continue;
    all[i].extra_bytes = x.device ? std::optional(x.device->workspace_bytes()) : peak;
    all[i].check = x.check();
    if (!all[i].check->ok()) {
      throw Failure(ExitCode::kFailed,
                    fmt::format("{} {}: wrong result: expected a relative error of at most {:.2g}, "
                                "got {:.2g}; not timed",
                                c.name, x.stage, all[i].check->tolerance, all[i].check->error));
    }
  }
}

void time_all(const BenchCase& c, int64_t repeats, std::vector<Measured>& all, ProgressBar& bar,
              const InterruptScope& interrupt) {
  std::optional<DeviceClock> clock;
  for (const Measured& x : all) {
    if (x.ran() && x.contestant.device && !clock) clock.emplace(x.contestant.device->backend());
  }
  const int64_t warm_up = clock ? 3 : 1;
  for (int64_t round = -warm_up; round < repeats; ++round) {
    for (size_t i = 0; i < all.size(); ++i) {
      Measured& x = all[(i + static_cast<size_t>(round + warm_up)) % all.size()];
      if (!x.ran()) continue;
      bar.update(c.name, round + warm_up, repeats + warm_up, x.contestant.stage);
      interrupt.check();
      const double ms = take(x.contestant.device ? device_ms(x.contestant, *clock)
                                                 : wall_ms(x.contestant, x.inner));
      if (round >= 0) x.ms.push_back(ms);
    }
  }
}

}  // namespace vsa::cli
