// Whether what a contestant computed is right, by the reference backend. Host-only.
#pragma once

#include "cli/bench/problem.h"

namespace vsa::cli {

/// How far from the reference, and how far it may be.
struct CheckResult {
  double error = 0.0;  ///< largest relative L2 error among the outputs; NaN if any value is
  double tolerance = 0.0;
  int64_t tiles_checked = 0;  ///< of the query tiles, and of the kv tiles for dk and dv
  bool ok() const { return error <= tolerance; }  // false for NaN
};

/// Relative L2 error that outputs of that dtype may have: two roundings to the dtype (2 eps), and
/// for f32, where sums dominate the rounding of the output, 1e-5 for sums of at most 1e5 terms.
double bench_tolerance(DType dtype);

/// Checks the outputs that lie in `problem`, as left by the last run of that stage, in the heads
/// that `problem` looks at. Stages whose cost is quadratic in tokens are checked on sampled tiles.
/// Each throws Failure if the reference refuses.
CheckResult check_tile(const BenchProblem& problem);
CheckResult check_untile(const BenchProblem& problem);
/// After the first run, because it changes its input; of all heads.
CheckResult check_norm_rope_pool(const BenchProblem& problem);
CheckResult check_residual_norm(const BenchProblem& problem);
CheckResult check_pool(const BenchProblem& problem);
CheckResult check_coarse(const BenchProblem& problem);
CheckResult check_select(BenchProblem& problem);
CheckResult check_fine(const BenchProblem& problem, bool full);
CheckResult check_combine(const BenchProblem& problem);
CheckResult check_attention(BenchProblem& problem);
CheckResult check_pool_backward(const BenchProblem& problem);
CheckResult check_coarse_backward(const BenchProblem& problem);
CheckResult check_fine_backward(const BenchProblem& problem, bool full);
CheckResult check_combine_backward(const BenchProblem& problem);
CheckResult check_attention_backward(const BenchProblem& problem);

}  // namespace vsa::cli
