// `vsa` as a whole: its subcommands, its own options, and how failures become messages and exit
// codes. Host-only.
#pragma once

#include <CLI/App.hpp>
#include <memory>
#include <string>
#include <vector>

#include "cli/common/failure.h"

namespace vsa::cli {

/// All of the command line, ready to parse. A subcommand runs when it is parsed.
std::unique_ptr<CLI::App> make_application();

/// Parses the words behind the program's name and runs what they ask for. Whatever goes wrong is
/// one line on stderr, perhaps a hint, and an exit code.
ExitCode run_application(const std::vector<std::string>& words);

}  // namespace vsa::cli
