// `vsa plan --model`: what a run of a model needs, before anything is loaded. Host-only.
#pragma once

#include "cli/common/run_options.h"

namespace vsa::cli {

/// Reads the headers of the model's files, and prints what every stage of a run costs.
/// Throws Failure.
void plan_model(const RunOptions& options, bool json);

}  // namespace vsa::cli
