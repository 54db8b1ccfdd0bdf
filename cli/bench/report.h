// What `vsa bench` prints of one case. Host-only.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/bench/measure.h"

namespace vsa::cli {

/// What all lines of one case share.
struct Machine {
  std::string backend, detail, cpu;
  int threads = 0;
  nlohmann::ordered_json gpu = {};  ///< what GpuWatch saw; null: nothing
};

/// One line about contestant `x` of `all`: its figures, or `unsupported` and why.
nlohmann::ordered_json bench_json(const BenchProblem& p, const Machine& machine,
                                  const std::vector<Measured>& all, const Measured& x);

/// A table of all contestants, and below it why some are unsupported.
std::string bench_text(const BenchProblem& p, const Machine& machine,
                       const std::vector<Measured>& all);

}  // namespace vsa::cli
