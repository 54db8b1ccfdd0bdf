// The options of `vsa generate` that say what is generated. Host-only.
#pragma once

#include <CLI/App.hpp>
#include <optional>
#include <string>

#include "cli/common/command.h"
#include "runtime/pipeline.h"

namespace vsa::cli {

/// As the command line gives them; `to_runtime` makes sense of them.
struct SamplingOptions {
  std::string model = "wan-toy";  ///< of find_model
  std::string variant;
  std::string prompt;
  std::string negative_prompt;
  int64_t seed = -1;
  std::optional<int64_t> steps, frames;
  std::optional<std::string> size;
  std::optional<double> guidance;
  std::string attention = "vsa";
  std::optional<double> sparsity;
  std::optional<int64_t> topk;
  std::optional<std::string> tile, dense_layers;
  int64_t dense_steps = 0;
  BackendOptions backend;

  void add_to(CLI::App& command);
  /// Throws Failure(kUsage) for a value that cannot be read or does not fit
  /// another option. Values that depend on the model are left to the runtime.
  runtime::GenerateOptions to_runtime() const;
};

}  // namespace vsa::cli
