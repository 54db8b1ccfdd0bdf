// Finds mistakes of the command line, and words them. Host-only.
#include "cli/common/parse_error.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>

#include "cli/common/nearest.h"
#include "cli/common/option.h"

namespace vsa::cli {
namespace {

Failure usage(const std::string& message, const std::string& hint) {
  return {ExitCode::kUsage, message, hint};
}

std::string lists_options(const CLI::App& command) {
  return full_name(command) + " --help lists the options";
}

/// Every visible spelling of every option.
std::vector<std::string> spellings(const CLI::App& command) {
  std::vector<std::string> all;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group().empty()) continue;
    for (const std::string& name : option->get_lnames()) all.push_back("--" + name);
  }
  return all;
}

Failure unknown_option(const CLI::App& command, const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  const auto meant = nearest(name, spellings(command));
  return usage(fmt::format("unknown option {}", shown(name)),
               meant ? fmt::format("{} is an option", *meant) : lists_options(command));
}

/// A word that is no option, where no (further) word is expected.
Failure unexpected_word(const CLI::App& command, const std::string& word) {
  if (command.get_parent() != nullptr) {
    if (command.get_option_no_throw("--prompt") != nullptr) {
      return usage(fmt::format("unexpected word {}", shown(word)),
                   "a prompt of several words stands in quotes: -p \"a red circle\"");
    }
    return usage(fmt::format("unexpected word {}", shown(word)), lists_options(command));
  }
  std::vector<std::string> names;
  for (const CLI::App* subcommand : subcommands(command)) names.push_back(subcommand->get_name());
  const auto meant = nearest(word, names);
  return usage(fmt::format("unknown command {}", shown(word)),
               meant ? fmt::format("`vsa {}` is one", *meant) : "vsa --help lists the commands");
}

/// What is required and missing.
Failure missing(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_required() || option->count() > 0) continue;
    // An argument has no name on the command line, but says what it is.
    names.push_back(option->get_positional()
                        ? fmt::format("{} ({})", option->get_name(), option->get_description())
                        : name_of(*option));
  }
  std::string example = command.get_footer();
  example = example.substr(example.find_last_of('\n') + 1);
  example.erase(0, example.find_first_not_of(' '));
  return usage(fmt::format("expected {}, got none", fmt::join(names, " and ")),
               fmt::format("for example `{}`", example));
}

}  // namespace

std::vector<const CLI::App*> subcommands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

const CLI::App& named_command(const CLI::App& app, const std::vector<std::string>& words) {
  for (const CLI::App* command : subcommands(app)) {
    if (!words.empty() && command->get_name() == words[0]) return *command;
  }
  return app;
}

const CLI::App& parsed_command(const CLI::App& app) {
  const std::vector<CLI::App*> parsed = app.get_subcommands();
  return parsed.empty() ? app : *parsed.front();
}

std::string full_name(const CLI::App& command) {
  return command.get_parent() == nullptr ? command.get_name() : "vsa " + command.get_name();
}

void check_words(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App& command = named_command(app, words);
  for (const std::string& word : words) {
    if (word == "--") return;  // what follows is not looked at
    const size_t equals = word.find('=');
    // The parser takes `-prompt` for `-p rompt`.
    if (word.size() > 2 && word[0] == '-' && word[1] != '-') {
      const std::string name = word.substr(0, equals);
      const CLI::Option* meant = command.get_option_no_throw("-" + name);
      if (meant != nullptr && !meant->get_group().empty()) {
        fail_usage(fmt::format("unknown option {}", shown(name)),
                   fmt::format("-{} is an option", name));
      }
    }
    if (equals == std::string::npos || !word.starts_with('-')) continue;
    const std::string name = word.substr(0, equals);
    if (word.starts_with("--") && equals + 1 == word.size()) {
      fail_usage(fmt::format("{}: expected a value behind =, got nothing", shown(name)));
    }
    if (!word.starts_with("--") && equals == 2) {
      fail_usage(
          fmt::format("{}: expected its value as a word of its own, got {}", name, shown(word)),
          fmt::format("{} {}", name, word.substr(equals + 1)));
    }
  }
}

Failure explain(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = parsed_command(app);
  // Unknown words are reported first: one of them may be a misspelling of what is missing.
  for (const CLI::App* place : {&app, &command}) {
    for (const std::string& word : place->remaining()) {
      if (word.size() > 1 && word.starts_with('-')) return unknown_option(*place, word);
    }
    const std::vector<std::string> words = place->remaining();
    if (!words.empty()) return unexpected_word(*place, words.front());
  }
  const std::string text = error.what();
  if (error.get_name() == "RequiredError") return missing(command);
  if (error.get_name() == "ArgumentMismatch") {
    return usage(text.substr(0, text.find(':')) + ": expected a value, got none",
                 lists_options(command));
  }
  return usage(text.substr(0, text.find('\n')), lists_options(command));
}

}  // namespace vsa::cli
