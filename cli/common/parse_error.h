// What the parser of the command line found wrong, in plain sentences. Host-only.
#pragma once

#include <CLI/App.hpp>

#include "cli/common/failure.h"

namespace vsa::cli {

/// The subcommand that the first word names, or the whole program: before anything is parsed.
const CLI::App& named_command(const CLI::App& app, const std::vector<std::string>& words);
/// The subcommand that was parsed, or the whole program.
const CLI::App& parsed_command(const CLI::App& app);
/// "vsa plan", "vsa".
std::string full_name(const CLI::App& command);
/// All subcommands.
std::vector<const CLI::App*> subcommands(const CLI::App& app);

/// Finds what the parser would take for something else: `--seed=` without a value takes the next
/// word for it, `-o=FILE` names the file "=FILE", and `-prompt` is `-p rompt`. Throws
/// Failure(kUsage).
void check_words(const CLI::App& app, const std::vector<std::string>& words);

/// Turns an error of the parser into a Failure: an unknown option, with the nearest known one; a
/// missing value; a missing option, with an example.
Failure explain(const CLI::App& app, const CLI::ParseError& error);

}  // namespace vsa::cli
