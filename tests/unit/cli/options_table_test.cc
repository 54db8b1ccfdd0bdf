// Every option of every subcommand, taken from the application itself, so that none is forgotten.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <set>

#include "cli/application.h"
#include "cli/common/option.h"
#include "cli/common/parse_error.h"

namespace vsa::cli {
namespace {

/// A former name: kept to say what the option is called now.
bool is_former(const CLI::Option& option) { return option.get_group().empty(); }

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

bool may_be_repeated(const CLI::Option& option) {
  const std::string kind = option.get_type_name();
  return kind == "NAME" || kind == "STAGE" || kind == kScaledFileKind;
}

/// Calls visit with every option of every subcommand that takes a value.
template <class Visit>
void for_each_option(const Visit& visit) {
  const auto app = make_application();
  for (const CLI::App* command : subcommands(*app)) {
    for (const CLI::Option* option : command->get_options()) {
      if (!option->get_positional() && takes_value(*option) && !is_former(*option)) {
        visit(command->get_name(), *option);
      }
    }
  }
}

/// What is said of a value, or "" if it is taken. Values are read before unknown options are found,
/// so that with one of these nothing runs.
std::string complaint(const std::string& command, const std::string& option,
                      const std::string& value) {
  const auto app = make_application();
  try {
    app->parse(std::vector<std::string>{"--unknown", value, option, command});
  } catch (const Failure& e) {
    EXPECT_EQ(e.code(), ExitCode::kUsage);
    return e.what();
  } catch (const CLI::ParseError&) {
    return "";
  }
  ADD_FAILURE() << command << " takes --unknown";
  return "";
}

TEST(OptionsTable, P23_EveryOptionIsOfAKnownKind) {
  // CLI11's own names of types would show that an option is read by its conversions, which take
  // 010 for 8 and saturate.
  const std::set<std::string> kinds = {
      kWholeKind, kNumberKind, kListKind, kGridKind, kTextKind, kFileKind,      kFolderKind,
      kPathKind,  "WxH",       "I/N",     "NAME",    "STAGE",   kScaledFileKind};
  int count = 0;
  for_each_option([&](const std::string& command, const CLI::Option& option) {
    ++count;
    const std::string kind = option.get_type_name();
    EXPECT_TRUE(kinds.contains(kind) || kind.find('|') != std::string::npos)
        << command << " " << option.get_name() << ": " << kind;
  });
  EXPECT_GT(count, 60);
}

TEST(OptionsTable, P23_NumericOptionsRefuseWhatIsNoNumber) {
  const std::set<std::string> numeric = {kWholeKind, kNumberKind, kListKind,
                                         kGridKind,  "WxH",       "I/N"};
  int count = 0;
  for_each_option([&](const std::string& command, const CLI::Option& option) {
    if (!numeric.contains(option.get_type_name())) return;
    ++count;
    const std::string name = name_of(option);
    std::vector<std::string> wrong = {
        "",   " 1",    "1 ",   "0x10",     "inf", "nan",   "-inf", "12a",    "+1",       "1,",
        ",1", "1e999", "1.5.", "\xD9\xA3", "one", "1;2;3", "1 2",  "NaN(1)", "INFINITY", "0b1"};
    if (option.get_type_name() != std::string(kNumberKind)) {
      wrong.insert(wrong.end(), {"1e3", "1.5", "18446744073709551615", "99999999999999999999"});
    }
    for (const std::string& value : wrong) {
      const std::string text = complaint(command, name, value);
      EXPECT_THAT(text, testing::StartsWith(name + ": expected "))
          << command << " '" << value << "'";
      EXPECT_THAT(text, testing::HasSubstr(", got ")) << command;
    }
  });
  EXPECT_GT(count, 30);
}

TEST(OptionsTable, P23_LeadingZerosMeanNothing) {
  for_each_option([&](const std::string& command, const CLI::Option& option) {
    const std::string kind = option.get_type_name();
    // 008 would be no number at all in base 8. All of the options take 1.
    const std::string value = kind == kWholeKind    ? "0001"
                              : kind == kNumberKind ? "0001.0"
                              : kind == kListKind   ? "08,009"
                              : kind == kGridKind   ? "01,08,009"
                              : kind == "WxH"       ? "08x009"
                              : kind == "I/N"       ? "08/009"
                                                    : "";
    if (value.empty()) return;
    EXPECT_EQ(complaint(command, name_of(option), value), "") << command;
  });
}

TEST(OptionsTable, P34_AnOptionWithoutItsValueSaysSo) {
  for_each_option([&](const std::string& command, const CLI::Option& option) {
    const auto app = make_application();
    EXPECT_EQ(static_cast<int>(run_application({command, name_of(option)})), 2);
    // The name of another option is no value.
    EXPECT_EQ(complaint(command, name_of(option), "--help"),
              name_of(option) + ": expected a value, got the option --help");
    try {
      app->parse(std::vector<std::string>{"--unknown", "1", name_of(option), "1", name_of(option),
                                          command});
      ADD_FAILURE() << command << " " << name_of(option);
    } catch (const Failure& e) {
      if (may_be_repeated(option)) return;
      if (option.get_type_name() == kWholeKind || option.get_type_name() == kTextKind) {
        EXPECT_EQ(e.what(), name_of(option) + ": expected it once, got it 2 times");
      }
    } catch (const CLI::ParseError&) {
      EXPECT_TRUE(may_be_repeated(option)) << command << " " << name_of(option);
    }
  });
}

TEST(OptionsTable, P35_OneNameHasOneKindAndOneMeaning) {
  std::map<std::string, std::pair<std::string, std::string>> known;  // name -> kind, help
  for_each_option([&](const std::string& command, const CLI::Option& option) {
    const std::string name = name_of(option);
    const auto now = std::pair(option.get_type_name(), option.get_description());
    const auto [at, is_new] = known.emplace(name, now);
    EXPECT_EQ(at->second.first, now.first) << command << " " << name;
    // Defaults differ between commands, and what is written differs with them.
    const std::set<std::string> same_but_for_defaults = {"--output", "--fps", "--dtype"};
    if (!same_but_for_defaults.contains(name)) {
      EXPECT_EQ(at->second.second, now.second) << command << " " << name;
    }
  });
}

TEST(OptionsTable, P35_AFormerNameIsRefusedWithTheNewOne) {
  const auto app = make_application();
  int count = 0;
  for (const CLI::App* command : subcommands(*app)) {
    for (const CLI::Option* option : command->get_options()) {
      if (!is_former(*option)) continue;
      ++count;
      try {
        const auto again = make_application();
        again->parse(std::vector<std::string>{"1", name_of(*option), command->get_name()});
        ADD_FAILURE() << command->get_name() << " takes " << name_of(*option);
      } catch (const Failure& e) {
        EXPECT_EQ(e.what(), name_of(*option) + ": this command has no such option");
        const std::string hint = e.hint();
        const std::string now = hint.substr(0, hint.find(' '));
        EXPECT_NE(command->get_option_no_throw(now), nullptr) << hint;
      }
    }
  }
  EXPECT_EQ(count, 4);  // plan and inspect --batch, generate and decode --scale
}

}  // namespace
}  // namespace vsa::cli
