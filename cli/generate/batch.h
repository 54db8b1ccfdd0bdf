// `vsa generate --batch`: many videos in one run that can be resumed.
// Host-only.
#pragma once

#include <CLI/App.hpp>
#include <optional>
#include <string>

#include "cli/generate/options.h"
#include "cli/generate/outputs.h"

namespace vsa::cli {

/// Every `of`-th entry from the `index`-th, counted from 1.
struct BatchPart {
  int64_t index = 1, of = 1;
};

struct BatchOptions {
  std::string file;      ///< see read_batch; empty: no batch
  std::string manifest;  ///< empty: manifest.jsonl beside the videos
  std::optional<BatchPart> part;
  const CLI::App* app = nullptr;  ///< the command, which knows what options there are

  void add_to(CLI::App& command);
  /// Warns of what has no effect without --batch.
  void warn_of_unused() const;
};

/// Generates every entry of the file that the manifest does not list as
/// finished with the same settings. {name} in the output paths becomes the
/// entry's name. A line is added to the manifest when a video is complete, so
/// several processes may work on parts of one batch. Cost: one run each; the
/// model is read again for every entry, from the page cache: about 1 % of a run
/// of the small model.
void run_batch(const SamplingOptions& sampling, const OutputOptions& output,
               const BatchOptions& batch);

}  // namespace vsa::cli
