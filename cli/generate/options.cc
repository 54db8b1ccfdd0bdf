#include "cli/generate/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/common/failure.h"
#include "cli/common/find_model.h"

namespace vsa::cli {

void SamplingOptions::add_to(CLI::App& command) {
  command
      .add_option("--model", model, "model folder, or the name of one in VSA_MODELS or that ships")
      ->capture_default_str();
  command.add_option("--variant", variant, "weights to take where there are several: fp16, ema");
  command.add_option("--prompt", prompt, "what the video shows");
  command.add_option("--negative-prompt", negative_prompt, "what guidance leads away from");
  command.add_option("--seed", seed, "of the noise; -1: a random one, which is reported")
      ->capture_default_str();
  command.add_option("--steps", steps, "steps of the sampler");
  command.add_option("--frames", frames, "length of the video");
  command.add_option("--size", size, "height and width in pixels, HxW");
  command.add_option("--guidance", guidance, "strength of the prompt; 1: no guidance");
  command.add_option("--attention", attention, "vsa or dense")->capture_default_str();
  command.add_option("--sparsity", sparsity, "share of kv tiles that a query tile drops");
  command.add_option("--topk", topk, "kv tiles that a query tile keeps");
  command.add_option("--tile", tile, "tile edges in tokens, F,H,W");
  command.add_option("--dense-steps", dense_steps, "run the first N steps dense")
      ->capture_default_str();
  command.add_option("--dense-layers", dense_layers, "run these layers dense, as 0,1,6");
  backend.add_to(command);
}

runtime::GenerateOptions SamplingOptions::to_runtime() const {
  const Context context = backend.context();
  const auto route = runtime::attention_from_name(attention);
  if (!route.ok()) {
    fail_usage(fmt::format("--attention: expected vsa or dense, got {}", attention));
  }
  if (*route == runtime::Attention::kDense &&
      (sparsity || topk || dense_layers || dense_steps != 0)) {
    fail_usage(
        "--attention dense: expected none of --sparsity, --topk, "
        "--dense-steps and --dense-layers",
        "leave them out, or ask for --attention vsa");
  }
  if (sparsity && topk) fail_usage("expected at most one of --sparsity and --topk, got both");
  runtime::GenerateOptions options{.model = find_model(model),
                                   .variant = variant,
                                   .prompt = prompt,
                                   .negative_prompt = negative_prompt,
                                   .seed = seed,
                                   .steps = steps,
                                   .frames = frames,
                                   .size = std::nullopt,
                                   .guidance = guidance,
                                   .attention = *route,
                                   .sparsity = sparsity,
                                   .topk = topk,
                                   .dense_steps = dense_steps,
                                   .dense_layers = {},
                                   .tile = std::nullopt,
                                   .backend = context.backend,
                                   .num_threads = context.num_threads,
                                   .latents = {},
                                   .latents_name = {},
                                   .on_progress = {},
                                   .cancel = nullptr};
  if (size) {
    const auto edges = parse_integers("--size", *size, 2, 1, "HxW in pixels");
    options.size = runtime::FrameSize{.height = edges[0], .width = edges[1]};
  }
  if (tile) options.tile = parse_tile("--tile", *tile);
  if (dense_layers) {
    options.dense_layers =
        parse_integers("--dense-layers", *dense_layers, 0, 0, "layer numbers between commas");
  }
  return options;
}

}  // namespace vsa::cli
