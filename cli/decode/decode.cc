// `vsa decode`: finishes a run whose latents were saved.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/common/command.h"
#include "cli/common/failure.h"
#include "cli/common/find_model.h"
#include "cli/common/output.h"
#include "cli/common/progress.h"
#include "cli/generate/options.h"
#include "cli/generate/outputs.h"
#include "cli/generate/stdout_video.h"
#include "runtime/pipeline.h"

namespace vsa::cli {
namespace {

struct DecodeCommand {
  std::string latents, model, vae, video, contact_sheet;
  std::optional<double> fps;
  StreamOptions stream;
  BackendOptions backend;
  int64_t scale = 1;
  bool no_metadata = false;
  bool json = false;
};

void run(const DecodeCommand& command) {
  std::optional<StdoutVideo> stream;
  if (command.video == kStdout) {
    stream.emplace(command.stream, command.json);
  } else {
    command.stream.warn_of_unused();
  }
  warn_of_unused_fps(command.fps, command.video);
  const OutputPaths paths{.video = stream ? stream->path() : command.video,
                          .contact_sheet = command.contact_sheet,
                          .report = {},
                          .latents = {},
                          .keep_latents = true,
                          .metadata = !command.no_metadata,
                          .scale = command.scale};
  paths.check_writable();
  std::vector<NamedPath> files = paths.files();
  files.push_back({"latents", command.latents});
  check_distinct(files);
  const InterruptScope interrupt;
  ProgressBar bar;
  runtime::DecodeOptions options;
  options.latents = command.latents;
  if (!command.model.empty()) options.model = find_model("--model", command.model);
  options.vae = command.vae;
  const Context context = command.backend.context();
  command.backend.warn_of_unused_threads();
  options.backend = context.backend;
  options.device = command.backend.device.value_or(-1);
  options.num_threads = context.num_threads;
  options.cancel = interrupt.flag();
  options.on_progress = [&](const runtime::Progress& p) { bar.update("decode", p.done, p.total); };
  Result<runtime::Decoded> result = runtime::decode(options);
  bar.clear();
  const runtime::Decoded decoded = take(std::move(result));
  if (decoded.steps_done < decoded.steps) {
    warn(fmt::format("the run stopped after {} of {} steps; the video shows noise",
                     decoded.steps_done, decoded.steps));
  }
  interrupt.check();
  const double fps = command.fps.value_or(decoded.fps);
  write_outputs(paths, {decoded.frames, fps, decoded.metadata}, interrupt);
  if (stream) {
    stream->send();
    return;
  }
  const video::Frames& frames = decoded.frames;
  if (command.json) {
    print_json({{"output", command.video},
                {"prompt", decoded.prompt},
                {"seed", decoded.seed},
                {"steps", decoded.steps},
                {"steps_done", decoded.steps_done},
                {"frames", frames.num_frames},
                {"height_px", frames.height},
                {"width_px", frames.width},
                {"fps", fps}});
  } else {
    print_result(fmt::format("{}: {} frames of {}x{} (width x height), {} fps\n", command.video,
                             frames.num_frames, frames.width * command.scale,
                             frames.height * command.scale, fps));
  }
}

}  // namespace

void add_decode(CLI::App& app) {
  auto options = std::make_shared<DecodeCommand>();
  CLI::App& command =
      *app.add_subcommand("decode", "make the video of a run whose latents were saved");
  add_text(command,
           {.names = "latents", .kind = kFileKind, .help = "safetensors that `vsa generate` saved"},
           options->latents)
      .required();
  add_text(command,
           {.names = "--model",
            .kind = kFolderKind,
            .help = "folder of a model, or the name of one in the folders of VSA_MODELS or "
                    "installed with vsa"},
           options->model);
  add_text(command,
           {.names = "--vae",
            .kind = kPathKind,
            .help = "take the VAE from another folder or a safetensors file"},
           options->vae);
  add_video_options(command, options->video, options->scale, options->contact_sheet);
  add_number(command, "--fps", options->fps, kFpsRange,
             "frames per second that the video plays at; default: as it was generated");
  options->stream.add_to(command);
  options->backend.add_to(command);
  add_no_metadata_option(command, options->no_metadata);
  add_example(command, "vsa decode circle.latents.safetensors -o circle.mp4");
  add_json_option(command, options->json);
  command.callback([options] { run(*options); });
}

}  // namespace vsa::cli
