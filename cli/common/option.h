// The kinds of options that subcommands have. Every option is made by one of these functions: they
// read values strictly, say in plain words what they expected, and give each kind one name, which
// the help shows and shell completion goes by. Host-only.
#pragma once

#include <CLI/App.hpp>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "cli/common/number.h"
#include "vsa/tensor.h"
#include "vsa/tiling.h"

namespace vsa::cli {

/// The names of kinds. A kind with '|' in it lists all values that are taken.
inline constexpr const char* kWholeKind = "N";
inline constexpr const char* kNumberKind = "X";
inline constexpr const char* kListKind = "N,N,...";
inline constexpr const char* kGridKind = "F,H,W";
inline constexpr const char* kTextKind = "TEXT";
inline constexpr const char* kFileKind = "FILE";
inline constexpr const char* kFolderKind = "FOLDER";
inline constexpr const char* kPathKind = "PATH";            ///< a file or a folder
inline constexpr const char* kScaledFileKind = "FILE[:X]";  ///< a file, and its strength

/// An option, or an argument if `names` has no dash, with one value.
struct OptionSpec {
  std::string names;  ///< "-o,--output"
  std::string kind;
  std::string help;
  std::string default_value = {};  ///< as the help shows it; empty: not at all
};
/// `set` gets the name to be used in messages ("--output") and the value. It throws Failure.
/// Given twice, without a value, or with the name of an option as its value, the option fails.
CLI::Option& add_value(CLI::App& command, const OptionSpec& spec,
                       std::function<void(const std::string&, const std::string&)> set);

/// The same, and several of them may be given.
CLI::Option& add_values(CLI::App& command, const OptionSpec& spec,
                        std::vector<std::string>& values);

CLI::Option& add_text(CLI::App& command, const OptionSpec& spec, std::string& value);

/// One of several words; `spec.kind` is made from them.
CLI::Option& add_choice(CLI::App& command, OptionSpec spec, const std::vector<std::string>& words,
                        std::string& value);

CLI::Option& add_flag(CLI::App& command, const std::string& names, bool& value,
                      const std::string& help);

/// Throws Failure(kUsage) for the first of the options that is given.
/// @param beside  why there must be none: "without --model"
void refuse_options(const CLI::App& command, const std::string& beside,
                    std::initializer_list<const char*> names);

/// A whole number. T: an integer, or std::optional of one. What T holds is shown as the default.
template <class T>
CLI::Option& add_whole(CLI::App& command, const std::string& names, T& value, WholeRange range,
                       const std::string& help) {
  OptionSpec spec{.names = names, .kind = kWholeKind, .help = help};
  if constexpr (std::is_integral_v<T>) spec.default_value = std::to_string(value);
  return add_value(command, spec,
                   [&value, range](const std::string& option, const std::string& text) {
                     if constexpr (std::is_integral_v<T>) {
                       value = static_cast<T>(parse_whole(option, text, range));
                     } else {
                       value = parse_whole(option, text, range);
                     }
                   });
}

/// A number that need not be whole.
template <class T>
CLI::Option& add_number(CLI::App& command, const std::string& names, std::optional<T>& value,
                        NumberRange range, const std::string& help) {
  return add_value(command, {.names = names, .kind = kNumberKind, .help = help},
                   [&value, range](const std::string& option, const std::string& text) {
                     value = static_cast<T>(parse_number(option, text, range));
                   });
}

/// Whole numbers between commas.
CLI::Option& add_list(CLI::App& command, const std::string& names, std::vector<int64_t>& values,
                      WholeRange each, const std::string& help);

/// F,H,W in tokens.
CLI::Option& add_grid(CLI::App& command, const std::string& names, std::optional<Grid>& value,
                      const std::string& help);

/// An option by a name that it no longer has: it fails with `remedy` as its hint. Not in the help.
void add_former_name(CLI::App& command, const std::string& name, const std::string& remedy);

/// "21,30,52" (x or * separate as well). Throws Failure(kUsage) unless it is three whole numbers
/// of at least 1.
Grid parse_grid(const std::string& what, const std::string& text);
/// The same, for at most kMaxTileTokens tokens.
TileShape parse_tile(const std::string& what, const std::string& text);
/// f32, bf16, f16 or f64.
DType parse_dtype(const std::string& what, const std::string& text);
/// Whole numbers below 2^31, separated by any one of `separators`; exactly `count` of them, or any
/// number if that is 0. Throws Failure(kUsage) "what: expected EXPECTED, got TEXT".
std::vector<int64_t> parse_list(const std::string& what, const std::string& text,
                                const std::string& expected, const WholeRange& each,
                                size_t count = 0, std::string_view separators = ",");

/// "21,30,52".
std::string to_text(Grid grid);
std::string to_text(TileShape tile);

/// The long name of an option, or the name of an argument.
std::string name_of(const CLI::Option& option);
/// A message of the library, which names an argument ("dense_steps: expected ..."), with the
/// option of that name instead ("--dense-steps: expected ..."), if the command has one.
std::string name_option(const CLI::App& command, const std::string& message);

}  // namespace vsa::cli
