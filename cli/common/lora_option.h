// --lora: FILE[:strength]. Host-only.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "runtime/dit/lora.h"

namespace vsa::cli {

/// A LoRA as the command line names it: "style.safetensors:0.8". What follows the last colon is the
/// strength if it is a number and no file has the whole name.
/// Throws Failure(kInputOutput) if there is no such file.
dit::LoraSpec parse_lora(const std::string& text);

/// Adds the option; several of them may be given.
void add_lora_option(CLI::App& command, std::vector<std::string>& loras);

}  // namespace vsa::cli
