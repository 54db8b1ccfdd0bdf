// Adds the options of `vsa generate` that say what is generated. Host-only.
#include "cli/generate/options.h"

#include <CLI/CLI.hpp>

#include "cli/common/lora_option.h"

namespace vsa::cli {

void SamplingOptions::add_to(CLI::App& command) {
  add_model_to(command);
  add_lora_option(command, loras);
  add_text(command, {.names = "-p,--prompt", .kind = kTextKind, .help = "what the video shows"},
           prompt);
  add_text(command,
           {.names = "-n,--negative-prompt",
            .kind = kTextKind,
            .help = "what guidance leads the video away from"},
           negative_prompt);
  add_whole(command, "--seed", seed, kSeedRange,
            "seed of the noise; -1 or none: a random one, which is reported");
  add_video_to(command);
  add_number(command, "--fps", video.fps, kFpsRange, "frames per second that the video plays at");
  add_attention_to(command);
  add_text(command,
           {.names = "--resume",
            .kind = kFileKind,
            .help = "go on from latents of the same run, which was interrupted"},
           resume);
  add_whole(command, "--preview", preview, {},
            "write a small picture beside the video every N steps; 0: never");
  add_flag(command, "--offload", offload,
           "keep the transformer's layers in host memory, for a device that cannot hold them");
  backend.add_to(command);
}

runtime::GenerateOptions SamplingOptions::to_runtime() const {
  const Context context = backend.context();
  runtime::GenerateOptions options = RunOptions::to_runtime();
  for (const std::string& lora : loras) options.loras.push_back(parse_lora(lora));
  options.prompt = prompt;
  options.negative_prompt = negative_prompt;
  options.seed = seed.value_or(-1);
  options.resume = resume;
  options.backend = context.backend;
  options.device = backend.device.value_or(-1);
  options.offload = offload;
  options.num_threads = context.num_threads;
  return options;
}

}  // namespace vsa::cli
