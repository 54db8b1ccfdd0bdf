// `vsa decode`: finishes a run whose latents were saved.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/common/command.h"
#include "cli/common/failure.h"
#include "cli/common/output.h"
#include "cli/generate/outputs.h"
#include "runtime/pipeline.h"

namespace vsa::cli {
namespace {

struct DecodeCommand {
  std::string latents, video, contact_sheet;
  int64_t scale = 1;
  bool no_metadata = false;
  bool json = false;
};

void run(const DecodeCommand& command) {
  const OutputPaths paths{.video = command.video,
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
  const runtime::Decoded decoded = take(runtime::decode(command.latents));
  if (decoded.steps_done < decoded.steps) {
    note(fmt::format("warning: the run stopped after {} of {} steps; the video shows noise",
                     decoded.steps_done, decoded.steps));
  }
  interrupt.check();
  write_outputs(paths, {decoded.frames, decoded.fps, decoded.metadata}, interrupt);
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
                {"fps", decoded.fps}});
  } else {
    print_result(fmt::format("{}: {} frames of {}x{}, {} fps\n", command.video, frames.num_frames,
                             frames.height * command.scale, frames.width * command.scale,
                             decoded.fps));
  }
}

}  // namespace

void add_decode(CLI::App& app) {
  auto options = std::make_shared<DecodeCommand>();
  CLI::App& command = *app.add_subcommand("decode", "finish a run whose latents were saved");
  command.add_option("latents", options->latents, "FILE.safetensors that `vsa generate` saved")
      ->required();
  command
      .add_option("-o,--output", options->video, "FILE.mp4, .gif, .y4m, or frames as dir/%04d.png")
      ->required();
  command.add_option("--scale", options->scale, "write every pixel as N x N pixels")
      ->capture_default_str();
  command.add_option("--contact-sheet", options->contact_sheet,
                     "some frames side by side, FILE.png");
  add_no_metadata_option(command, options->no_metadata);
  add_json_option(command, options->json);
  command.callback([options] { run(*options); });
}

}  // namespace vsa::cli
