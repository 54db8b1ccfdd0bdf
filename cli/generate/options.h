// The options of `vsa generate` that say what is generated. Host-only.
#pragma once

#include <CLI/App.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/common/run_options.h"

namespace vsa::cli {

/// What a seed may be; -1 asks for a random one.
inline constexpr WholeRange kSeedRange{
    .least = -1,
    .description = "a whole number from 0 to 9223372036854775807, or -1 for a random one"};

/// As the command line gives them; `to_runtime` makes sense of them.
struct SamplingOptions : RunOptions {
  SamplingOptions() { model = "wan-toy"; }

  std::vector<std::string> loras;  ///< of parse_lora
  std::string prompt;
  std::string negative_prompt;
  std::string resume;           ///< latents of an interrupted run; empty: none
  int64_t preview = 0;          ///< steps between two pictures; 0: none
  bool offload = false;         ///< of GenerateOptions
  std::optional<int64_t> seed;  ///< none: random, or in a batch the position of the entry
  BackendOptions backend;

  void add_to(CLI::App& command);
  /// Throws Failure as RunOptions::to_runtime, or as parse_lora.
  runtime::GenerateOptions to_runtime() const;
};

}  // namespace vsa::cli
