// Runs the pipeline with a progress bar and with Ctrl-C. Host-only.
#include "cli/generate/run.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/common/failure.h"
#include "cli/common/output.h"
#include "runtime/io/atomic_file.h"

namespace vsa::cli {
namespace {

namespace fs = std::filesystem;

const char* stage_name(runtime::Progress::Stage stage) {
  switch (stage) {
    case runtime::Progress::Stage::kText:
      return "text";
    case runtime::Progress::Stage::kLoad:
      return "load";
    case runtime::Progress::Stage::kDenoise:
      return "denoise";
    case runtime::Progress::Stage::kDecode:
      return "decode";
  }
  return "run";
}

}  // namespace

video::Frames run_pipeline(runtime::GenerateOptions options, const std::string& label,
                           ProgressBar& bar, const InterruptScope& interrupt,
                           runtime::GenerateReport& report) {
  options.cancel = interrupt.flag();
  options.on_progress = [&](const runtime::Progress& p) {
    std::string text = fmt::format("{}{}", label, stage_name(p.stage));
    if (p.stage == runtime::Progress::Stage::kDenoise) {
      // The step is part of what is drawn, not of the label: a new label starts
      // the clock again.
      bar.update(text, p.done, p.total, fmt::format("step {}/{}", p.step + 1, p.num_steps));
      if (p.done * p.num_steps % p.total == 0) bar.finish_step(p.num_steps);  // its last layer
    } else {
      bar.update(text, p.done, p.total);
    }
  };
  Result<video::Frames> frames = runtime::generate(options, report);
  bar.clear();
  const std::string remedy = report.latents_path.empty()
                                 ? ""
                                 : fmt::format(
                                       "`vsa decode {} -o FILE` makes a video of the latents "
                                       "saved so far",
                                       report.latents_path);
  return take(std::move(frames), remedy);
}

void write_report(const fs::path& path, const runtime::GenerateReport& report) {
  const std::string text =
      runtime::to_json(report).dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
  check(io::write_file(path, text + "\n"));
}

fs::path sibling(const fs::path& output, const std::string& suffix) {
  fs::path beside = output;
  if (output.filename().string().find('%') != std::string::npos && output.has_parent_path()) {
    return fs::path(output.parent_path().string() + suffix) / output.filename();
  }
  beside.replace_filename(output.stem().string() + suffix + output.extension().string());
  return beside;
}

fs::path beside_video(const fs::path& video, const std::string& ending) {
  const bool pattern = video.filename().string().find('%') != std::string::npos;
  const std::string stem =
      !pattern ? (video.parent_path() / video.stem()).string()
               : (video.has_parent_path() ? video.parent_path().string() : "frames");
  return stem + ending;
}

fs::path default_latents(const fs::path& output) {
  return beside_video(output, ".latents.safetensors");
}

}  // namespace vsa::cli
