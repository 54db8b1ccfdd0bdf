// The scripts that complete `vsa`, for bash and zsh.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/common/option.h"
#include "cli/common/parse_error.h"
#include "cli/completion/completion.h"

namespace vsa::cli {
namespace {

/// "-o", "--output"; nothing for arguments and for former names.
std::vector<std::string> spellings(const CLI::Option& option) {
  std::vector<std::string> all;
  if (option.get_group().empty()) return all;
  for (const std::string& name : option.get_snames()) all.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) all.push_back("--" + name);
  return all;
}

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

/// The values that a kind lists: "vsa|dense".
std::vector<std::string> words_of_kind(const std::string& kind) {
  return kind.find('|') == std::string::npos ? std::vector<std::string>{}
                                             : CLI::detail::split(kind, '|');
}

/// Whether a value is, or begins with, the name of a file.
bool is_file_kind(const std::string& kind) {
  return kind == kFileKind || kind == kPathKind || kind == kScaledFileKind;
}

/// What bash completes a value of this kind with.
std::string bash_action(const CLI::App& app, const std::string& kind) {
  if (is_file_kind(kind)) return "_vsa_files -f";
  if (kind == kFolderKind) return "_vsa_files -d";
  std::vector<std::string> words = words_of_kind(kind);
  if (kind == "COMMAND") {
    for (const CLI::App* command : subcommands(app)) words.push_back(command->get_name());
  }
  return words.empty() ? "" : fmt::format("_vsa_words '{}'", fmt::join(words, " "));
}

/// The same for zsh, as an action of _arguments.
std::string zsh_action(const CLI::App& app, const std::string& kind) {
  if (is_file_kind(kind)) return "_files";
  if (kind == kFolderKind) return "_files -/";
  std::vector<std::string> words = words_of_kind(kind);
  if (kind == "COMMAND") {
    for (const CLI::App* command : subcommands(app)) words.push_back(command->get_name());
  }
  return words.empty() ? " " : fmt::format("({})", fmt::join(words, " "));
}

/// Within single quotes of a shell, and within the brackets of _arguments.
std::string quoted(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '\'') {
      safe += "'\\''";
    } else {
      if (c == '[' || c == ']' || c == ':' || c == '\\') safe += '\\';
      safe += c;
    }
  }
  return safe;
}

}  // namespace

std::string bash_completion(const CLI::App& app) {
  std::string commands, options, values, arguments;
  for (const CLI::App* command : subcommands(app)) {
    const std::string& name = command->get_name();
    commands += (commands.empty() ? "" : " ") + name;
    std::vector<std::string> all;
    for (const CLI::Option* option : command->get_options()) {
      const std::vector<std::string> names = spellings(*option);
      all.insert(all.end(), names.begin(), names.end());
      if (option->get_positional()) {
        const std::string action = bash_action(app, option->get_type_name());
        if (!action.empty()) arguments += fmt::format("    {}) {} ;;\n", name, action);
      } else if (takes_value(*option) && !names.empty()) {
        std::vector<std::string> patterns;
        for (const std::string& spelling : names) patterns.push_back(name + ":" + spelling);
        const std::string action = bash_action(app, option->get_type_name());
        values += fmt::format("    {}) {} ;;\n", fmt::join(patterns, "|"),
                              action.empty() ? "return" : action);
      }
    }
    options += fmt::format("    {}) _vsa_words '{}' ;;\n", name, fmt::join(all, " "));
  }
  std::vector<std::string> own;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : spellings(*option)) own.push_back(name);
  }
  return fmt::format(R"(# Completes vsa in bash; made by `vsa completion bash`.
_vsa_words() {{ mapfile -t COMPREPLY < <(compgen -W "$1" -- "$word"); }}
_vsa_files() {{ compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen "$1" -- "$word"); }}
_vsa() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} command=${{COMP_WORDS[1]}}
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    if [[ $word == -* ]]; then _vsa_words '{}'; else _vsa_words '{}'; fi
    return
  fi
  # bash takes --option=value for three words.
  if [[ $word == '=' ]]; then word=''; elif [[ $before == '=' ]]; then before=${{COMP_WORDS[COMP_CWORD-2]}}; fi
  [[ $before == -* ]] || before=''
  if [[ $word == -* ]]; then
    case $command in
{}    esac
    return
  fi
  case $command:$before in
{}    *) case $command in
{}    esac ;;
  esac
}}
complete -F _vsa vsa
)",
                     fmt::join(own, " "), commands, options, values, arguments);
}

std::string zsh_completion(const CLI::App& app) {
  std::string commands, arguments;
  for (const CLI::App* command : subcommands(app)) {
    commands +=
        fmt::format("    '{}:{}'\n", command->get_name(), quoted(command->get_description()));
    arguments += fmt::format("    {})\n      _arguments -s -S", command->get_name());
    for (const CLI::Option* option : command->get_options()) {
      const std::string help = quoted(option->get_description());
      const std::string kind = quoted(option->get_type_name());
      const std::string action = zsh_action(app, option->get_type_name());
      const std::vector<std::string> names = spellings(*option);
      if (option->get_positional()) {
        arguments += fmt::format(" \\\n        ':{}:{}'", help, action);
        continue;
      }
      for (const std::string& name : names) {
        // Either spelling leaves no room for the other.
        arguments += fmt::format(" \\\n        '({})'{}'[{}]{}'", fmt::join(names, " "),
                                 takes_value(*option) && name.starts_with("--") ? name + "=" : name,
                                 help, takes_value(*option) ? ":" + kind + ":" + action : "");
      }
    }
    arguments += " ;;\n";
  }
  std::string own;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : spellings(*option)) {
      own += fmt::format(" \\\n    '{}[{}]'", name, quoted(option->get_description()));
    }
  }
  return fmt::format(R"(#compdef vsa
# Completes vsa in zsh; made by `vsa completion zsh`.
_vsa() {{
  local curcontext=$curcontext state line
  local -a commands=(
{})
  _arguments -C{} \
    '1:command:->command' '*::argument:->argument'
  case $state in
  command) _describe command commands ;;
  argument)
    case $words[1] in
{}    esac ;;
  esac
}}
if [[ $funcstack[1] == _vsa ]]; then _vsa "$@"; else compdef _vsa vsa; fi
)",
                     commands, own, arguments);
}

}  // namespace vsa::cli
