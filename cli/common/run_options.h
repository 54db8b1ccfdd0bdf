// The options of a run of a model: what `vsa generate` makes, and `vsa plan` counts. Host-only.
#pragma once

#include <CLI/App.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/common/command.h"
#include "cli/common/model_options.h"
#include "cli/common/tiling_options.h"
#include "runtime/pipeline.h"

namespace vsa::cli {

inline constexpr WholeRange kStepsRange{.least = 1};
inline constexpr WholeRange kFramesRange{.least = 1};
inline constexpr NumberRange kGuidanceRange{.least = 0.0};
inline constexpr NumberRange kShiftRange{
    .least = 0.01, .most = 1000.0, .description = "a number from 0.01 to 1000"};
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

/// A run, but for its prompts, seed and device.
struct RunOptions {
  std::string model;  ///< of find_model
  ModelChoiceOptions choice;
  VideoSettings video;
  std::string scheduler;  ///< of sampler::scheduler_from_name; empty: the model's
  std::optional<double> shift;
  std::string attention = "vsa";
  TilingOptions tiling;
  std::vector<int64_t> dense_layers;
  int64_t dense_steps = 0;

  /// --model and where its parts are.
  void add_model_to(CLI::App& command);
  /// --frames and --size.
  void add_size_to(CLI::App& command);
  /// The same, --steps, --guidance, --scheduler and --shift.
  void add_video_to(CLI::App& command);
  /// --attention, how many tiles are kept, --tile, --dense-steps and --dense-layers.
  /// @param tile_default  what the help shows as the default
  void add_attention_to(CLI::App& command, const std::string& tile_default = "");

  /// Throws Failure(kUsage) for options that do not fit each other. Values that depend on the
  /// model are left to the runtime.
  runtime::GenerateOptions to_runtime() const;
};

}  // namespace vsa::cli
