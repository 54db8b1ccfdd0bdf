// `vsa completion bash|zsh`: a script that completes commands, options and their values. Host-only.
#pragma once

#include <CLI/App.hpp>
#include <string>

namespace vsa::cli {

void add_completion(CLI::App& app);

/// Scripts made from what the application knows, so that they cannot name other options than it
/// has. `app` is the whole program.
std::string bash_completion(const CLI::App& app);
std::string zsh_completion(const CLI::App& app);

}  // namespace vsa::cli
