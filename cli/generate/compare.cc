// Makes a video with VSA and with dense attention, and compares the two. Host-only.
#include "cli/generate/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/common/failure.h"
#include "cli/common/output.h"
#include "cli/common/table.h"
#include "runtime/made_by.h"
#include "runtime/video/contact_sheet.h"
#include "runtime/video/quality.h"
#include "runtime/video/write_video.h"

namespace vsa::cli {
namespace {

namespace fs = std::filesystem;

/// Means over all frames. PSNR of the mean error: the mean of decibels would be infinite as soon as
/// one frame is equal.
video::FrameQuality mean_of(const std::vector<video::FrameQuality>& frames) {
  double error = 0.0;
  double ssim = 0.0;
  for (const video::FrameQuality& frame : frames) {
    error += std::pow(10.0, -frame.psnr_db / 10.0);
    ssim += frame.ssim;
  }
  const auto count = static_cast<double>(frames.size());
  return {.psnr_db = -10.0 * std::log10(error / count), .ssim = ssim / count};
}

/// null for the infinite PSNR of equal frames, which JSON cannot hold.
nlohmann::ordered_json to_json(const video::FrameQuality& q) {
  nlohmann::ordered_json json = {{"psnr_db", nullptr}, {"ssim", q.ssim}};
  if (std::isfinite(q.psnr_db)) json["psnr_db"] = q.psnr_db;
  return json;
}

/// Where the time of the denoising went, in all layers and steps.
struct Spent {
  double attention_ms = 0.0;  ///< self-attention
  double linear_ms = 0.0;     ///< projections and feed-forward
  double cross_ms = 0.0;      ///< attention to the text, with its output projection

  explicit Spent(const runtime::GenerateReport& report) {
    for (const runtime::StepReport& step : report.step_reports) {
      for (const runtime::LayerReport& layer : step.layers) {
        attention_ms += layer.attention_ms;
        linear_ms += layer.qkv_ms + layer.ffn_ms;
        cross_ms += layer.cross_ms;
      }
    }
  }
};

/// Seconds of a run, and how they were spent.
std::vector<std::string> row_of(const char* name, const runtime::GenerateReport& report) {
  const Spent spent(report);
  const double rest = report.denoise_ms - spent.attention_ms - spent.linear_ms - spent.cross_ms;
  std::vector<std::string> row{name};
  for (const double ms :
       {report.denoise_ms, spent.attention_ms, spent.linear_ms, spent.cross_ms, rest}) {
    row.push_back(fmt::format("{:.2f}", ms / 1e3));
  }
  row.push_back(fmt::format("{:.1f} %", 100.0 * report.kept_share));
  return row;
}

/// Both runs and what was written.
struct Comparison {
  runtime::GenerateReport vsa, dense;
  OutputPaths vsa_paths, dense_paths;
  fs::path side_by_side;
  std::vector<video::FrameQuality> frames;

  double speedup() const { return dense.denoise_ms / vsa.denoise_ms; }
  double attention_speedup() const { return Spent(dense).attention_ms / Spent(vsa).attention_ms; }
};

void print(const Comparison& c, bool json) {
  const video::FrameQuality mean = mean_of(c.frames);
  if (json) {
    nlohmann::ordered_json frames = nlohmann::ordered_json::array();
    for (const video::FrameQuality& frame : c.frames) frames.push_back(to_json(frame));
    print_json(
        {{"output", c.vsa_paths.video.string()},
         {"output_dense", c.dense_paths.video.string()},
         {"output_compare", c.side_by_side.string()},
         {"denoise_ms", {{"vsa", c.vsa.denoise_ms}, {"dense", c.dense.denoise_ms}}},
         {"speedup", c.speedup()},
         {"attention_speedup", c.attention_speedup()},
         {"kept_share", c.vsa.kept_share},
         {"mean", to_json(mean)},
         {"frames", frames},
         {"report", {{"vsa", runtime::to_json(c.vsa)}, {"dense", runtime::to_json(c.dense)}}}});
    return;
  }
  std::string text = summary(c.vsa, c.vsa_paths);
  text += fmt::format("{:<14}{}\n{:<14}{} (vsa left, dense right)\n\n", "dense video",
                      c.dense_paths.video.string(), "side by side", c.side_by_side.string());
  Table times({"", "denoise s", "attention", "linear", "text", "rest", "kept"});
  times.add(row_of("vsa", c.vsa));
  times.add(row_of("dense", c.dense));
  text += times.to_string();
  text += fmt::format("vsa is {:.2f} times as fast, its attention {:.2f} times\n\n", c.speedup(),
                      c.attention_speedup());
  Table table({"frame", "PSNR dB", "SSIM"});
  for (size_t i = 0; i < c.frames.size(); ++i) {
    table.add({fmt::format("{}", i), fmt::format("{:.2f}", c.frames[i].psnr_db),
               fmt::format("{:.4f}", c.frames[i].ssim)});
  }
  table.add({"mean", fmt::format("{:.2f}", mean.psnr_db), fmt::format("{:.4f}", mean.ssim)});
  print_result(text + table.to_string());
}

/// Of what shows both runs.
video::Metadata metadata_of_both(const runtime::GenerateReport& vsa,
                                 const runtime::GenerateReport& dense) {
  return {.title = vsa.prompt,
          .comment = fmt::format("{{\"vsa\":{},\"dense\":{}}}", runtime::made_by_json(vsa),
                                 runtime::made_by_json(dense))};
}

/// Where the dense run goes. The contact sheet shows both, so it is written apart.
OutputPaths dense_paths_of(const OutputPaths& vsa) {
  OutputPaths dense = vsa;
  dense.video = sibling(vsa.video, "-dense");
  dense.latents = sibling(vsa.latents, "-dense");
  if (!vsa.report.empty()) dense.report = sibling(vsa.report, "-dense");
  dense.contact_sheet.clear();
  return dense;
}

}  // namespace

void run_compare(const SamplingOptions& sampling, const OutputOptions& output, bool json) {
  runtime::GenerateOptions options = sampling.to_runtime();
  if (options.attention != runtime::Attention::kVsa) {
    fail_usage("--compare: expected --attention vsa, which dense is run beside");
  }
  Comparison c;
  c.vsa_paths = output.paths();
  const fs::path contact_sheet = c.vsa_paths.contact_sheet;
  c.vsa_paths.contact_sheet.clear();
  c.dense_paths = dense_paths_of(c.vsa_paths);
  c.dense_paths.check_writable();
  c.side_by_side = sibling(c.vsa_paths.video, "-compare");
  check(video::check_video_path(c.side_by_side));
  std::vector<NamedPath> files = c.vsa_paths.files();
  files.push_back({"--contact-sheet", contact_sheet});
  for (NamedPath& file : c.dense_paths.files()) {
    files.push_back({file.option + " of the dense run", std::move(file.path)});
  }
  files.push_back({"the comparison", c.side_by_side});
  check_distinct(files);
  if (!output.overwrite) {
    check_free({"the dense video", c.dense_paths.video});
    check_free({"the comparison", c.side_by_side});
    check_free({"the report of the dense run", c.dense_paths.report});
    if (c.dense_paths.keep_latents) {
      check_free({"the latents of the dense run", c.dense_paths.latents});
    }
  }

  const InterruptScope interrupt;
  ProgressBar bar;
  const video::Frames vsa =
      generate_to_files({.options = options, .preview = 0, .paths = c.vsa_paths, .label = "vsa "},
                        bar, interrupt, c.vsa);
  options.attention = runtime::Attention::kDense;
  options.sparsity.reset();
  options.topk.reset();
  options.dense_steps = 0;
  options.dense_layers.clear();
  options.seed = c.vsa.seed;
  const video::Frames dense = generate_to_files(
      {.options = options, .preview = 0, .paths = c.dense_paths, .label = "dense "}, bar, interrupt,
      c.dense);
  print_warnings(c.vsa);
  for (const std::string& warning : c.dense.warnings) {
    if (std::ranges::find(c.vsa.warnings, warning) == c.vsa.warnings.end()) {
      note("warning: " + warning);
    }
  }

  c.frames = take(video::compare(vsa, dense));
  const video::Metadata metadata =
      c.vsa_paths.metadata ? metadata_of_both(c.vsa, c.dense) : video::Metadata{};
  check(video::write_video(c.side_by_side, take(video::side_by_side(vsa, dense)), c.vsa.fps,
                           c.vsa_paths.scale, interrupt.flag(), metadata));
  if (!contact_sheet.empty()) {
    const std::array<video::SheetVideo, 2> both{{{&vsa, "vsa"}, {&dense, "dense"}}};
    check(video::write_png(contact_sheet, take(video::contact_sheet(both, c.vsa_paths.scale)),
                           metadata));
    c.vsa_paths.contact_sheet = contact_sheet;
  }
  print(c, json);
}

}  // namespace vsa::cli
