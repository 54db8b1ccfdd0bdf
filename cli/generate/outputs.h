// Where a generated video and what belongs to it are written. Host-only.
#pragma once

#include <CLI/App.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/common/named_path.h"
#include "cli/generate/run.h"

namespace vsa::cli {

/// Output files of one run; an empty path means: not wanted.
struct OutputPaths {
  std::filesystem::path video;
  std::filesystem::path contact_sheet;
  std::filesystem::path report;
  std::filesystem::path latents;
  bool keep_latents = false;  ///< false: removed once the video is complete
  int64_t scale = 1;

  /// All of them, by their options.
  std::vector<NamedPath> files() const;
  /// Finds out before a long run whether all of them could be written, each to a file of its own.
  /// Throws Failure.
  void check_writable() const;
};

/// -o, --contact-sheet, --report, --latents and --scale.
struct OutputOptions {
  std::string video, contact_sheet, report, latents;
  int64_t scale = 1;

  void add_to(CLI::App& command);
  /// The paths, checked. Throws Failure.
  OutputPaths paths() const;
};

/// One run and where its results go.
struct OutputRun {
  runtime::GenerateOptions options;
  OutputPaths paths;
  std::string label;  ///< before the stage in the progress bar
};

/// Runs the pipeline and writes every output; the report also if the run fails.
/// Throws Failure.
video::Frames generate_to_files(const OutputRun& run, ProgressBar& bar,
                                const InterruptScope& interrupt, runtime::GenerateReport& report);

/// Writes a video and its contact sheet. Throws Failure.
void write_outputs(const OutputPaths& paths, const video::Frames& frames, double fps,
                   const InterruptScope& interrupt);

/// What the user should know about the run, on stderr.
void print_warnings(const runtime::GenerateReport& report);

/// What a run did, for people.
std::string summary(const runtime::GenerateReport& report, const OutputPaths& paths);

}  // namespace vsa::cli
