// Adds the options of a run of a model, and checks them. Host-only.
#include "cli/common/run_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/common/failure.h"
#include "cli/common/find_model.h"

namespace vsa::cli {

runtime::FrameSize parse_size(const std::string& what, const std::string& text) {
  // No comma: where commas separate extents, the height comes first.
  const auto edges =
      parse_list(what, text, "WIDTHxHEIGHT in pixels, as 832x480", {.least = 1}, 2, "xX*");
  return {.height = edges[1], .width = edges[0]};
}

std::string to_text(const runtime::FrameSize& size) {
  return fmt::format("{}x{}", size.width, size.height);
}

void VideoSettings::apply_to(runtime::GenerateOptions& options) const {
  const auto set = [](auto& field, const auto& value) {
    if (value) field = value;
  };
  set(options.steps, steps);
  set(options.frames, frames);
  set(options.size, size);
  set(options.guidance, guidance);
  set(options.fps, fps);
  if (keep.given()) {
    options.sparsity = keep.as_sparsity();
    options.topk = keep.topk;
  }
}

void RunOptions::add_model_to(CLI::App& command) {
  add_text(command,
           {.names = "--model",
            .kind = kFolderKind,
            .help = "folder of a model, or the name of one in the folders of VSA_MODELS or "
                    "installed with vsa",
            .default_value = model},
           model);
  choice.add_to(command);
}

void RunOptions::add_size_to(CLI::App& command) {
  add_whole(command, "--frames", video.frames, kFramesRange,
            "frames of the video; default: the model's");
  add_value(command,
            {.names = "--size",
             .kind = "WxH",
             .help = "width and height in pixels; default: the model's"},
            [this](const std::string& option, const std::string& text) {
              video.size = parse_size(option, text);
            });
}

void RunOptions::add_video_to(CLI::App& command) {
  add_whole(command, "--steps", video.steps, kStepsRange, "sampling steps; default: the model's");
  add_size_to(command);
  add_number(command, "--guidance", video.guidance, kGuidanceRange,
             "scale of classifier-free guidance; 1: none; default: the model's");
  std::vector<std::string> schedulers;
  for (const auto kind : sampler::kSchedulerKinds) schedulers.emplace_back(sampler::name(kind));
  add_choice(command,
             {.names = "--scheduler", .kind = {}, .help = "the sampler; default: the model's"},
             schedulers, scheduler);
  add_number(
      command, "--shift", shift, kShiftRange,
      "shift of the noise levels: above 1, more steps on strong noise; default: the model's");
}

void RunOptions::add_attention_to(CLI::App& command, const std::string& tile_default) {
  add_choice(command,
             {.names = "--attention",
              .kind = {},
              .help = "sparse or dense attention",
              .default_value = attention},
             {"vsa", "dense"}, attention);
  video.keep.add_to(command);
  tiling.add_to(command, tile_default);
  add_whole(command, "--dense-steps", dense_steps, {}, "the first N steps use dense attention");
  add_list(command, "--dense-layers", dense_layers, {}, "these layers use dense attention");
}

runtime::GenerateOptions RunOptions::to_runtime() const {
  const runtime::Attention route = take(runtime::attention_from_name(attention));
  if (route == runtime::Attention::kDense &&
      (video.keep.given() || !dense_layers.empty() || dense_steps != 0)) {
    fail_usage(
        "--attention dense: expected none of --sparsity, --topk, --keep, "
        "--dense-steps and --dense-layers",
        "leave them out, or ask for --attention vsa");
  }
  video.keep.check_at_most_one();
  runtime::GenerateOptions options;
  options.model = find_model("--model", model);
  options.choice = choice.to_runtime();
  options.attention = route;
  if (!scheduler.empty()) options.scheduler = take(sampler::scheduler_from_name(scheduler));
  options.shift = shift;
  options.dense_steps = dense_steps;
  options.dense_layers = dense_layers;
  tiling.check();
  options.order = tiling.token_order();
  options.tile = tiling.edges();
  options.best_tile_of = tiling.best_tile_of;
  video.apply_to(options);
  return options;
}

}  // namespace vsa::cli
