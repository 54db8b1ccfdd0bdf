// Checking and timing the contestants of one case. Host-only.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/bench/contestant.h"
#include "cli/common/interrupt.h"
#include "cli/common/progress.h"

namespace vsa::cli {

/// Of samples in any order, interpolated; share 0.5 is the median.
double quantile(std::vector<double> samples, double share);
/// The distance of the quartiles.
double iqr(const std::vector<double>& samples);

/// The measurements of one contestant; none if it is refused.
struct Measured {
  Contestant contestant;
  std::optional<CheckResult> check;
  /// Memory that a call needs beyond its inputs and outputs: the workspace on a device; on the host
  /// the peak of its first run. None where the system does not tell, or nothing is checked.
  std::optional<int64_t> extra_bytes = {};
  int64_t inner = 1;  ///< calls that a sample is the mean of
  std::vector<double> ms;

  bool ran() const { return contestant.refusal.empty(); }
  double median() const { return quantile(ms, 0.5); }
  double gflops() const { return contestant.flops / median() * 1e-6; }
  double gigabytes_per_second() const { return contestant.bytes / median() * 1e-6; }
};

/// Runs each contestant once and compares what it wrote with the reference: nothing wrong is timed.
/// One that answers Unsupported is refused from then on. Throws Failure on any other error.
void check_all(const BenchCase& c, std::vector<Measured>& all, ProgressBar& bar,
               const InterruptScope& interrupt);

/// A round runs every contestant that is not refused, each round from another one on, so that all
/// see the same load of the machine. The first rounds, 3 on a device and 1 elsewhere, warm up.
/// Samples on a device are times of the device, each with a cold L2 cache. Throws Failure.
void time_all(const BenchCase& c, int64_t repeats, std::vector<Measured>& all, ProgressBar& bar,
              const InterruptScope& interrupt);

}  // namespace vsa::cli
