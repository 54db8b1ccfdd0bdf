// The options of `vsa generate` that say what is generated. Host-only.
#pragma once

#include <CLI/App.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/common/command.h"
#include "runtime/pipeline.h"

namespace vsa::cli {

/// What a seed may be; -1 asks for a random one.
inline constexpr WholeRange kSeedRange{
    .least = -1,
    .description = "a whole number from 0 to 9223372036854775807, or -1 for a random one"};
inline constexpr WholeRange kStepsRange{.least = 1};
inline constexpr WholeRange kFramesRange{.least = 1};
inline constexpr NumberRange kGuidanceRange{.least = 0.0};
inline constexpr NumberRange kFpsRange{
    .least = 1e-3, .most = 1000.0, .description = "a number from 0.001 to 1000"};

/// "832x480" or "832*480": width, then height. Throws Failure(kUsage).
runtime::FrameSize parse_size(const std::string& what, const std::string& text);
/// "832x480".
std::string to_text(const runtime::FrameSize& size);

/// What one video may have of its own in a batch; empty: as the model has it.
struct VideoSettings {
  std::optional<int64_t> steps, frames;
  std::optional<runtime::FrameSize> size;
  std::optional<double> guidance, fps;
  KeepOptions keep;

  void apply_to(runtime::GenerateOptions& options) const;
};

/// As the command line gives them; `to_runtime` makes sense of them.
struct SamplingOptions {
  std::string model = "wan-toy";  ///< of find_model
  std::string variant;
  std::string prompt;
  std::string negative_prompt;
  std::optional<int64_t> seed;  ///< none: random, or in a batch the position of the entry
  VideoSettings video;
  std::string attention = "vsa";
  std::optional<TileShape> tile;
  std::vector<int64_t> dense_layers;
  int64_t dense_steps = 0;
  BackendOptions backend;

  void add_to(CLI::App& command);
  /// Throws Failure(kUsage) for options that do not fit each other. Values that depend on the
  /// model are left to the runtime.
  runtime::GenerateOptions to_runtime() const;
};

}  // namespace vsa::cli
