#include "cli/generate/outputs.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>

#include "cli/common/failure.h"
#include "cli/common/output.h"
#include "cli/common/table.h"
#include "runtime/io/atomic_file.h"
#include "runtime/video/contact_sheet.h"
#include "runtime/video/write_video.h"

namespace vsa::cli {
namespace {

namespace fs = std::filesystem;

}  // namespace

std::vector<NamedPath> OutputPaths::files() const {
  return {{"--output", video},
          {"--contact-sheet", contact_sheet},
          {"--report", report},
          {"--latents", latents}};
}

void OutputPaths::check_writable() const {
  check_distinct(files());
  const InterruptScope interrupt;  // a probe that is cut off would leave its file behind
  vsa::cli::check(video::check_video_path(video));
  for (const fs::path& path : {contact_sheet, report, latents}) {
    if (!path.empty()) check(io::check_writable(path));
  }
  interrupt.check();
  if (!contact_sheet.empty() && contact_sheet.extension() != ".png") {
    fail_usage(fmt::format("--contact-sheet: expected a .png, got {}", contact_sheet.string()));
  }
  if (scale < 1 || scale > 64) fail_usage(fmt::format("--scale: expected 1 to 64, got {}", scale));
}

void OutputOptions::add_to(CLI::App& command) {
  command.add_option("-o,--output", video, "FILE.mp4, .gif, .y4m, or frames as dir/%04d.png")
      ->required();
  command.add_option("--scale", scale, "write every pixel as N x N pixels")->capture_default_str();
  command.add_option("--contact-sheet", contact_sheet, "some frames side by side, FILE.png");
  command.add_option("--report", report, "what ran, with times and hashes, FILE.json");
  command.add_option("--latents", latents,
                     "keep the latents in FILE.safetensors; else only until "
                     "the video is complete");
}

OutputPaths OutputOptions::paths() const {
  OutputPaths paths{.video = video,
                    .contact_sheet = contact_sheet,
                    .report = report,
                    .latents = latents.empty() ? default_latents(video) : fs::path(latents),
                    .keep_latents = !latents.empty(),
                    .scale = scale};
  paths.check_writable();
  return paths;
}

void write_outputs(const OutputPaths& paths, const video::Frames& frames, double fps,
                   const InterruptScope& interrupt) {
  check(video::write_video(paths.video, frames, fps, paths.scale, interrupt.flag()));
  if (paths.contact_sheet.empty()) return;
  const std::array<video::SheetVideo, 1> one{{{&frames, ""}}};
  check(video::write_png(paths.contact_sheet, take(video::contact_sheet(one, paths.scale))));
}

video::Frames generate_to_files(const OutputRun& run, ProgressBar& bar,
                                const InterruptScope& interrupt, runtime::GenerateReport& report) {
  runtime::GenerateOptions options = run.options;
  options.latents = run.paths.latents;
  const auto save_report = [&] {
    if (!run.paths.report.empty()) write_report(run.paths.report, report);
  };
  video::Frames frames;
  try {
    frames = run_pipeline(options, run.label, bar, interrupt, report);
  } catch (const Failure&) {
    save_report();
    throw;
  }
  save_report();
  const std::string remedy =
      fmt::format("the latents are complete: `vsa decode {} -o FILE`", run.paths.latents.string());
  try {
    interrupt.check();
    write_outputs(run.paths, frames, report.fps, interrupt);
  } catch (const Failure& e) {
    throw Failure(e.code(), e.what(), remedy);
  }
  std::error_code ignored;  // a latents file that stays behind does no harm
  if (!run.paths.keep_latents) fs::remove(run.paths.latents, ignored);
  return frames;
}

void print_warnings(const runtime::GenerateReport& report) {
  for (const std::string& warning : report.warnings) note("warning: " + warning);
}

std::string summary(const runtime::GenerateReport& report, const OutputPaths& paths) {
  std::string text;
  const auto line = [&](const char* what, const std::string& value) {
    text += fmt::format("{:<14}{}\n", what, value);
  };
  line("video",
       fmt::format("{}: {} frames of {}x{}, {} fps", paths.video.string(), report.frames,
                   report.height_px * paths.scale, report.width_px * paths.scale, report.fps));
  if (!paths.contact_sheet.empty()) line("contact sheet", paths.contact_sheet.string());
  if (!paths.report.empty()) line("report", paths.report.string());
  if (paths.keep_latents) line("latents", paths.latents.string());
  line("seed", fmt::format("{}", report.seed));
  line("attention",
       fmt::format("{} on {} ({}), {:.1f} % of {} tiles kept", report.attention, report.backend,
                   report.backend_detail, 100.0 * report.kept_share, report.num_tiles));
  line("time", fmt::format("{:.2f} s: text {:.2f}, load {:.2f}, denoise {:.2f} ({} steps)",
                           report.total_ms / 1e3, report.text_ms / 1e3, report.load_ms / 1e3,
                           report.denoise_ms / 1e3, report.steps));
  line("peak memory", format_bytes(static_cast<double>(report.peak_memory_bytes)));
  return text;
}

}  // namespace vsa::cli
