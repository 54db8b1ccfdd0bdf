// Checks and writes the files of a run. Host-only.
#include "cli/generate/outputs.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <optional>

#include "cli/common/failure.h"
#include "cli/common/option.h"
#include "cli/common/output.h"
#include "cli/common/table.h"
#include "cli/generate/preview.h"
#include "runtime/io/atomic_file.h"
#include "runtime/made_by.h"
#include "runtime/video/background_writer.h"
#include "runtime/video/contact_sheet.h"
#include "runtime/video/png_frames.h"
#include "runtime/video/write_video.h"

namespace vsa::cli {
namespace {

namespace fs = std::filesystem;

}  // namespace

void add_no_metadata_option(CLI::App& command, bool& no_metadata) {
  add_flag(command, "--no-metadata", no_metadata,
           "do not write into videos and pictures how they were made");
}

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
  if (!contact_sheet.empty() && !video::is_png_name(contact_sheet)) {
    fail_usage(fmt::format("--contact-sheet: expected a .png, got {}", contact_sheet.string()));
  }
}

void add_video_options(CLI::App& command, std::string& video, int64_t& scale,
                       std::string& contact_sheet) {
  add_text(command,
           {.names = "-o,--output",
            .kind = kFileKind,
            .help = "video as .mp4, .gif or .y4m, frames as dir/%04d.png, or - for stdout"},
           video)
      .required();
  add_whole(command, "--upscale", scale, {.least = 1, .most = 64},
            "write every pixel as N x N pixels");
  add_former_name(command, "--scale", "--upscale N writes every pixel as N x N pixels");
  add_text(
      command,
      {.names = "--contact-sheet", .kind = kFileKind, .help = "some frames side by side, as .png"},
      contact_sheet);
}

void OutputOptions::add_to(CLI::App& command) {
  add_video_options(command, video, scale, contact_sheet);
  add_text(
      command,
      {.names = "--report", .kind = kFileKind, .help = "what ran, with times and hashes, as .json"},
      report);
  add_text(
      command,
      {.names = "--latents",
       .kind = kFileKind,
       .help = "keep the latents in this .safetensors; default: only until the video is complete"},
      latents);
  add_flag(command, "--overwrite", overwrite,
           "with --compare: replace files whose names follow from -o");
  add_no_metadata_option(command, no_metadata);
}

OutputPaths OutputOptions::paths() const {
  OutputPaths paths{.video = video,
                    .contact_sheet = contact_sheet,
                    .report = report,
                    .latents = latents.empty() ? default_latents(video) : fs::path(latents),
                    .keep_latents = !latents.empty(),
                    .overwrite = overwrite,
                    .metadata = !no_metadata,
                    .scale = scale};
  paths.check_writable();
  return paths;
}

void write_outputs(const OutputPaths& paths, const FinishedVideo& finished,
                   const InterruptScope& interrupt) {
  const video::Metadata metadata = paths.metadata ? finished.metadata : video::Metadata{};
  check(video::write_video(paths.video, finished.frames, finished.fps, paths.scale,
                           interrupt.flag(), metadata));
  write_contact_sheet(paths, finished);
}

void write_contact_sheet(const OutputPaths& paths, const FinishedVideo& finished) {
  if (paths.contact_sheet.empty()) return;
  const video::Metadata metadata = paths.metadata ? finished.metadata : video::Metadata{};
  const std::array<video::SheetVideo, 1> one{{{&finished.frames, ""}}};
  check(video::write_png(paths.contact_sheet, take(video::contact_sheet(one, paths.scale)),
                         metadata));
}

void check_free(const NamedPath& derived) {
  const auto pattern = video::FramePattern::parse(derived.path);
  const fs::path there = pattern ? pattern->path_of(0) : derived.path;
  std::error_code ignored;  // what cannot be looked at fails when it is written
  if (!fs::exists(fs::symlink_status(there, ignored))) return;
  throw Failure(ExitCode::kInputOutput,
                fmt::format("{}: expected a free name, got {}, which is there", derived.option,
                            there.string()),
                "move it away, choose another -o, or say --overwrite");
}

video::Frames generate_to_files(const OutputRun& run, ProgressBar& bar,
                                const InterruptScope& interrupt, runtime::GenerateReport& report) {
  runtime::GenerateOptions options = run.options;
  options.latents = run.paths.latents;
  options.latents_name =
      run.paths.keep_latents ? runtime::LatentsName::kExact : runtime::LatentsName::kFree;
  const auto save_report = [&] {
    if (!run.paths.report.empty()) write_report(run.paths.report, report);
  };
  std::optional<PreviewFile> preview;
  if (run.preview > 0) {
    options.preview = preview.emplace(run.paths.video).every(run.preview);
  }
  std::optional<video::BackgroundWriter> writer;
  const auto begin = [&](int64_t num_frames, int64_t height, int64_t width) {
    writer.emplace(
        video::VideoTarget{
            .path = run.paths.video,
            .fps = report.fps,
            .scale = run.paths.scale,
            .cancel = interrupt.flag(),
            .metadata = run.paths.metadata ? runtime::video_metadata(report) : video::Metadata{}},
        num_frames, height, width);
  };
  options.feed = {.begin = begin, .add = [&](std::span<const uint8_t> rgb) { writer->add(rgb); }};
  video::Frames frames;
  try {
    frames = run_pipeline(options, run.label, bar, interrupt, report);
  } catch (const Failure&) {
    save_report();
    throw;
  }
  save_report();
  const std::string remedy =
      fmt::format("the latents are complete: `vsa decode {} -o FILE`", report.latents_path);
  try {
    interrupt.check();
    check(writer->finish());
    write_contact_sheet(run.paths, {frames, report.fps, runtime::video_metadata(report)});
  } catch (const Failure& e) {
    throw Failure(e.code(), e.what(), remedy);
  }
  if (!run.paths.keep_latents) report.latents_file.remove();
  return frames;
}

void print_warnings(const runtime::GenerateReport& report) {
  for (const std::string& warning : report.warnings) warn(plain(warning));
}

std::string summary(const runtime::GenerateReport& report, const OutputPaths& paths) {
  std::string text;
  const auto line = [&](const char* what, const std::string& value) {
    text += fmt::format("{:<14}{}\n", what, value);
  };
  line("video", fmt::format("{}: {} frames of {}x{} (width x height), {} fps", paths.video.string(),
                            report.frames, report.width_px * paths.scale,
                            report.height_px * paths.scale, report.fps));
  if (!paths.contact_sheet.empty()) line("contact sheet", paths.contact_sheet.string());
  if (!paths.report.empty()) line("report", paths.report.string());
  if (paths.keep_latents) line("latents", paths.latents.string());
  line("seed", fmt::format("{}", report.seed));
  line("attention",
       fmt::format("{} on {} ({}), {:.1f} % of {} tiles kept", report.attention, report.backend,
                   report.backend_detail, 100.0 * report.kept_share, report.num_tiles));
  const std::string decoding =
      report.vae.loaded == 0 ? "" : fmt::format(", decode {:.2f}", report.decode_ms / 1e3);
  line("time", fmt::format("{:.2f} s: text {:.2f}, load {:.2f}, denoise {:.2f} ({} steps){}",
                           report.total_ms / 1e3, report.text_ms / 1e3, report.load_ms / 1e3,
                           report.denoise_ms / 1e3, report.steps, decoding));
  line("peak memory", format_bytes(static_cast<double>(report.peak_memory_bytes)));
  return text;
}

}  // namespace vsa::cli
