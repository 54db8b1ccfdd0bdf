// Adds options of every kind to a subcommand, and parses their values. Host-only.
#include "cli/common/option.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "cli/common/failure.h"

namespace vsa::cli {
namespace {

constexpr const char* kGridForm = "F,H,W with every number >= 1";

/// `--latents --json` is a value that was forgotten, not a file of that name.
void check_is_value(const CLI::App& command, const std::string& option, const std::string& value) {
  if (value.size() > 1 && value.front() == '-' && command.get_option_no_throw(value) != nullptr) {
    fail_usage(fmt::format("{}: expected a value, got the option {}", option, value));
  }
}

CLI::Option& add(CLI::App& command, const OptionSpec& spec, CLI::callback_t callback) {
  CLI::Option& option = *command.add_option(spec.names, std::move(callback), spec.help);
  option.type_name(spec.kind)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  if (!spec.default_value.empty()) option.default_str(spec.default_value);
  return option;
}

/// "a, b or c".
std::string either(const std::vector<std::string>& words) {
  if (words.size() == 1) return words[0];
  const std::vector<std::string> head(words.begin(), words.end() - 1);
  return fmt::format("{} or {}", fmt::join(head, ", "), words.back());
}

}  // namespace

CLI::Option& add_value(CLI::App& command, const OptionSpec& spec,
                       std::function<void(const std::string&, const std::string&)> set) {
  // Making the option needs the callback, and only then the option's name is known.
  const auto name = std::make_shared<std::string>();
  CLI::Option& option =
      add(command, spec, [&command, name, set = std::move(set)](const CLI::results_t& values) {
        if (values.size() > 1) {
          fail_usage(fmt::format("{}: expected it once, got it {} times", *name, values.size()));
        }
        check_is_value(command, *name, values[0]);
        set(*name, values[0]);
        return true;
      });
  *name = name_of(option);
  return option;
}

CLI::Option& add_values(CLI::App& command, const OptionSpec& spec,
                        std::vector<std::string>& values) {
  const auto name = std::make_shared<std::string>();
  CLI::Option& option = add(command, spec, [&command, name, &values](const CLI::results_t& given) {
    for (const std::string& value : given) check_is_value(command, *name, value);
    values = given;
    return true;
  });
  *name = name_of(option);
  return option;
}

CLI::Option& add_text(CLI::App& command, const OptionSpec& spec, std::string& value) {
  return add_value(command, spec,
                   [&value](const std::string&, const std::string& text) { value = text; });
}

CLI::Option& add_choice(CLI::App& command, OptionSpec spec, const std::vector<std::string>& words,
                        std::string& value) {
  spec.kind = fmt::format("{}", fmt::join(words, "|"));
  return add_value(
      command, spec, [&value, words](const std::string& option, const std::string& text) {
        if (std::ranges::find(words, text) == words.end()) {
          fail_usage(fmt::format("{}: expected {}, got {}", option, either(words), shown(text)));
        }
        value = text;
      });
}

void refuse_options(const CLI::App& command, const std::string& beside,
                    std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (command.get_option(name)->count() == 0) continue;
    fail_usage(fmt::format("{}: expected none {}", name, beside));
  }
}

CLI::Option& add_flag(CLI::App& command, const std::string& names, bool& value,
                      const std::string& help) {
  const auto name = std::make_shared<std::string>();
  CLI::Option& option =
      add(command, {.names = names, .kind = "", .help = help},
          [&value, name](const CLI::results_t& given) {
            // CLI11's own conversion would accept --json=off, which no help mentions.
            if (given.back() != "true") {
              fail_usage(fmt::format("{}: expected no value, got {}", *name, shown(given.back())));
            }
            return value = true;
          });
  option.expected(0);
  *name = name_of(option);
  return option;
}

CLI::Option& add_list(CLI::App& command, const std::string& names, std::vector<int64_t>& values,
                      WholeRange each, const std::string& help) {
  return add_value(command, {.names = names, .kind = kListKind, .help = help},
                   [&values, each](const std::string& option, const std::string& text) {
                     values = parse_list(option, text, "whole numbers between commas", each);
                   });
}

CLI::Option& add_grid(CLI::App& command, const std::string& names, std::optional<Grid>& value,
                      const std::string& help) {
  return add_value(command, {.names = names, .kind = kGridKind, .help = help},
                   [&value](const std::string& option, const std::string& text) {
                     value = parse_grid(option, text);
                   });
}

void add_former_name(CLI::App& command, const std::string& name, const std::string& remedy) {
  CLI::Option& option = add(command, {.names = name, .kind = kTextKind, .help = ""},
                            [name, remedy](const CLI::results_t&) -> bool {
                              fail_usage(name + ": this command has no such option", remedy);
                            });
  option.group("");  // kept out of the help
}

std::vector<int64_t> parse_list(const std::string& what, const std::string& text,
                                const std::string& expected, const WholeRange& each, size_t count,
                                std::string_view separators) {
  std::vector<int64_t> values;
  try {
    size_t start = 0;
    while (true) {
      const size_t end = std::min(text.find_first_of(separators, start), text.size());
      const int64_t value = parse_whole(what, text.substr(start, end - start), each);
      if (value >= int64_t{1} << 31) break;  // products of three of them stay in range
      values.push_back(value);
      if (end == text.size()) {
        if (count != 0 && values.size() != count) break;
        return values;
      }
      start = end + 1;
    }
  } catch (const Failure&) {
    // The message below is about the whole list.
  }
  fail_usage(fmt::format("{}: expected {}, got {}", what, expected, shown(text)));
}

DType parse_dtype(const std::string& what, const std::string& text) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kF64}) {
    if (text == name(dtype)) return dtype;
  }
  fail_usage(fmt::format("{}: expected f32, bf16, f16 or f64, got {}", what, shown(text)));
}

Grid parse_grid(const std::string& what, const std::string& text) {
  const auto n = parse_list(what, text, kGridForm, {.least = 1}, 3, ",x*");
  return {.f = n[0], .h = n[1], .w = n[2]};
}

TileShape parse_tile(const std::string& what, const std::string& text) {
  const auto n = parse_list(what, text, kGridForm, {.least = 1}, 3, ",x*");
  const TileShape tile{.f = n[0], .h = n[1], .w = n[2]};
  // Extents below 2^31 cannot overflow the first product; the second is safe once the first is in
  // range.
  if (tile.f * tile.h > kMaxTileTokens || tile.num_tokens() > kMaxTileTokens) {
    fail_usage(fmt::format("{}: expected at most {} tokens in a tile, got {}", what, kMaxTileTokens,
                           text));
  }
  return tile;
}

std::string to_text(Grid grid) { return fmt::format("{},{},{}", grid.f, grid.h, grid.w); }

std::string to_text(TileShape tile) { return fmt::format("{},{},{}", tile.f, tile.h, tile.w); }

std::string name_of(const CLI::Option& option) {
  return option.get_lnames().empty() ? option.get_name() : "--" + option.get_lnames()[0];
}

std::string name_option(const CLI::App& command, const std::string& message) {
  std::string word = message.substr(0, message.find(": "));
  // A word of one letter is a tensor (q, k, v), even if an option of that name exists.
  if (word.size() < 2 || word.size() == message.size()) return message;
  if (word == "height" || word == "width") return "--size: " + message;
  const std::string rest = message.substr(word.size());
  std::ranges::replace(word, '_', '-');
  std::ranges::replace(word, ' ', '-');
  const CLI::Option* option = command.get_option_no_throw("--" + word);
  return option != nullptr && !option->get_group().empty() ? "--" + word + rest : message;
}

}  // namespace vsa::cli
