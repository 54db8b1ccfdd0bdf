// `vsa bench --model`: how long a pass of a model's transformer takes, and where. Host-only.
#pragma once

#include <cstdint>

#include "cli/common/command.h"
#include "cli/common/run_options.h"

namespace vsa::cli {

struct ModelPassOptions {
  RunOptions run;
  int64_t repeats = 20;
  BackendOptions backend;
  bool json = false;
};

/// Times passes on random latents and a random prompt of 64 tokens, each from latents to velocity
/// in host memory, and prints the figures. Throws Failure.
void bench_model_pass(const ModelPassOptions& options);

}  // namespace vsa::cli
