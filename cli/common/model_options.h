// Which model a command uses: --model, --variant, and the parts that are elsewhere. Host-only.
#pragma once

#include <CLI/App.hpp>
#include <string>

#include "runtime/model_folder.h"

namespace vsa::cli {

/// --variant, --transformer, --vae and --text-encoder.
struct ModelChoiceOptions {
  std::string variant, transformer, vae, text_encoder;

  void add_to(CLI::App& command);
  runtime::ModelChoice to_runtime() const;
};

}  // namespace vsa::cli
