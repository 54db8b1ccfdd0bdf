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
  /// False: the latents get a free name, and are removed once the video is complete.
  bool keep_latents = false;
  bool overwrite = false;  ///< files whose names follow from others may replace what is there
  bool metadata = true;    ///< videos and pictures say how they were made
  int64_t scale = 1;

  /// All of them, by their options.
  std::vector<NamedPath> files() const;
  /// Finds out before a long run whether all of them could be written, each to a file of its own.
  /// Throws Failure.
  void check_writable() const;
};

/// -o, --upscale and --contact-sheet, as generate and decode have them.
void add_video_options(CLI::App& command, std::string& video, int64_t& scale,
                       std::string& contact_sheet);

/// The options above, --report, --latents, --overwrite and --no-metadata.
struct OutputOptions {
  std::string video, contact_sheet, report, latents;
  int64_t scale = 1;
  bool overwrite = false;
  bool no_metadata = false;

  void add_to(CLI::App& command);
  /// The paths, checked. Throws Failure.
  OutputPaths paths() const;
};

/// --no-metadata.
void add_no_metadata_option(CLI::App& command, bool& no_metadata);

/// One run and where its results go.
struct OutputRun {
  runtime::GenerateOptions options;
  int64_t preview = 0;  ///< steps between two pictures; 0: none
  OutputPaths paths;
  std::string label;  ///< before the stage in the progress bar
};

/// Runs the pipeline and writes every output; the report also if the run fails. The video is
/// written while it is decoded. Throws Failure.
video::Frames generate_to_files(const OutputRun& run, ProgressBar& bar,
                                const InterruptScope& interrupt, runtime::GenerateReport& report);

/// A decoded video.
struct FinishedVideo {
  const video::Frames& frames;
  double fps;
  video::Metadata metadata;  ///< not written if the paths say so
};

/// Writes a video and its contact sheet. Throws Failure.
void write_outputs(const OutputPaths& paths, const FinishedVideo& finished,
                   const InterruptScope& interrupt);

/// The contact sheet alone, if the paths have one. Throws Failure.
void write_contact_sheet(const OutputPaths& paths, const FinishedVideo& finished);

/// Throws Failure(kInputOutput) if a file or a folder of frames exists under this name, which was
/// derived from another one: the user did not name it, so it must not be replaced.
void check_free(const NamedPath& derived);

/// What the user should know about the run, on stderr.
void print_warnings(const runtime::GenerateReport& report);

/// What a run did, for people.
std::string summary(const runtime::GenerateReport& report, const OutputPaths& paths);

}  // namespace vsa::cli
