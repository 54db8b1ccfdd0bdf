#include "cli/bench/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "cli/common/failure.h"

namespace vsa::cli {
namespace {

Result<double> time_ms(const Contestant& x, int64_t times) {
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < times; ++i) VSA_TRY(x.run());
  if (x.wait) x.wait();
  const auto passed = std::chrono::steady_clock::now() - start;
  return std::chrono::duration<double, std::milli>(passed).count() / static_cast<double>(times);
}

}  // namespace

double Measured::quantile(double share) const {
  std::vector<double> sorted = ms;
  std::ranges::sort(sorted);
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (at - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

void check_all(const BenchCase& c, std::vector<Measured>& all, ProgressBar& bar,
               const InterruptScope& interrupt) {
  for (size_t i = 0; i < all.size(); ++i) {
    bar.update(c.name + " check", static_cast<int64_t>(i), std::ssize(all));
    interrupt.check();
    Contestant& x = all[i].contestant;
    if (!all[i].ran()) continue;
    const Result<double> first_ms = time_ms(x, 1);
    if (first_ms.status().code() == StatusCode::kUnsupported) {
      x.refusal = first_ms.status().message();
      continue;
    }
    // A sample lasts at least 1 ms, a thousand times what reading the clock costs.
    all[i].inner = std::max<int64_t>(1, static_cast<int64_t>(1.0 / take(first_ms)));
    if (!x.check) continue;
    if (x.fetch) x.fetch();
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
  for (int64_t round = 0; round <= repeats; ++round) {
    for (Measured& x : all) {
      if (!x.ran()) continue;
      bar.update(c.name, round, repeats + 1, x.contestant.stage);
      interrupt.check();
      const double ms = take(time_ms(x.contestant, x.inner));
      if (round > 0) x.ms.push_back(ms);
    }
  }
}

}  // namespace vsa::cli
