// Adds the options that choose the parts of a model. Host-only.
#include "cli/common/model_options.h"

#include "cli/common/option.h"

namespace vsa::cli {

void ModelChoiceOptions::add_to(CLI::App& command) {
  add_text(command,
           {.names = "--variant",
            .kind = kTextKind,
            .help = "which weights to take if there are several, such as fp16 or ema"},
           variant);
  const auto part = [&](const char* option, const char* help, std::string& path) {
    add_text(command, {.names = option, .kind = kPathKind, .help = help}, path);
  };
  part("--transformer", "take the transformer from another folder or a safetensors file",
       transformer);
  part("--vae", "take the VAE from another folder or a safetensors file", vae);
  part("--text-encoder", "take the text encoder from another folder or a safetensors file",
       text_encoder);
}

runtime::ModelChoice ModelChoiceOptions::to_runtime() const {
  return {.variant = variant,
          .parts = {.transformer = transformer, .vae = vae, .text_encoder = text_encoder}};
}

}  // namespace vsa::cli
