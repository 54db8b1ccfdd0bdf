// One run of the pipeline under the command line: progress, Ctrl-C, failures.
// Host-only.
#pragma once

#include <filesystem>

#include "cli/common/interrupt.h"
#include "cli/common/progress.h"
#include "runtime/pipeline.h"

namespace vsa::cli {

/// Runs the pipeline, drawing `bar` and stopping when `interrupt` is requested.
/// `report` is filled as far as the run came, also on failure. Throws Failure;
/// if latents were saved, its hint says how to finish.
video::Frames run_pipeline(runtime::GenerateOptions options, const std::string& label,
                           ProgressBar& bar, const InterruptScope& interrupt,
                           runtime::GenerateReport& report);

/// Writes the report as a JSON file. Throws Failure.
void write_report(const std::filesystem::path& path, const runtime::GenerateReport& report);

/// "out.mp4" + "-dense" -> "out-dense.mp4"; "dir/%04d.png" ->
/// "dir-dense/%04d.png".
std::filesystem::path sibling(const std::filesystem::path& output, const std::string& suffix);

/// "out.mp4" + ".x" -> "out.x"; "dir/%04d.png" -> "dir.x".
std::filesystem::path beside_video(const std::filesystem::path& video, const std::string& ending);

/// Where latents are kept until the video is complete, if the user named no
/// place: "out.latents.safetensors", "dir.latents.safetensors".
std::filesystem::path default_latents(const std::filesystem::path& output);

}  // namespace vsa::cli
