// Assembles `vsa` from its subcommands, and turns failures into messages and exit codes. Host-only.
#include "cli/application.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <new>
#include <nlohmann/json.hpp>

#include "cli/common/build_info.h"
#include "cli/common/command.h"
#include "cli/common/interrupt.h"
#include "cli/common/nearest.h"
#include "cli/common/output.h"
#include "cli/common/parse_error.h"
#include "cli/completion/completion.h"

namespace vsa::cli {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  vsa generate -p \"a large red circle moving right, navy background\" -o circle.mp4\n"
    "  vsa plan --grid 21,30,52 --sparsity 0.875\n\n"
    "`vsa COMMAND --help` describes a command and its options.";

struct OwnOptions {
  bool version = false, json = false;
};

/// What `vsa` does without a subcommand.
void run_without_command(const CLI::App& app, const OwnOptions& options) {
  if (options.version) {
    options.json ? print_json(version_json()) : print_result(version_text());
  } else if (options.json) {
    fail_usage("--json: expected --version beside it, or a command in front of it",
               "`vsa plan --grid 21,30,52 --topk 78 --json`");
  } else {
    print_result(app.help());
  }
}

/// `vsa help [COMMAND]`.
void add_help(CLI::App& app) {
  auto wanted = std::make_shared<std::string>();
  CLI::App& command = *app.add_subcommand("help", "print this text, or that of a command");
  add_text(command, {.names = "command", .kind = "COMMAND", .help = "the command to describe"},
           *wanted);
  add_example(command, "vsa help generate");
  command.callback([&app, wanted] {
    if (wanted->empty()) {
      // app.help() would print the help of the command that was parsed, which is `help` itself.
      print_result(
          app.get_formatter()->make_help(&app, app.get_name(), CLI::AppFormatMode::Normal));
      return;
    }
    std::vector<std::string> names;
    for (const CLI::App* known : subcommands(app)) {
      names.push_back(known->get_name());
      if (known->get_name() != *wanted) continue;
      print_result(known->help("vsa"));
      return;
    }
    const auto meant = nearest(*wanted, names);
    fail_usage(fmt::format("unknown command {}", shown(*wanted)),
               meant ? fmt::format("`vsa help {}`", *meant) : "vsa --help lists the commands");
  });
}

void report(const CLI::App& command, const std::string& message, const std::string& hint) {
  if (message.empty()) return;
  note(fmt::format("{}: error: {}", full_name(command), name_option(command, plain(message))));
  if (!hint.empty()) note(fmt::format("hint: {}", hint));
}

}  // namespace

std::unique_ptr<CLI::App> make_application() {
  auto app = std::make_unique<CLI::App>(
      "Video Sparse Attention: the operator, its tools, and video generation.", "vsa");
  auto options = std::make_shared<OwnOptions>();
  app->require_subcommand(0, 1);
  app->get_formatter()->label("REQUIRED", "(required)");
  app->get_formatter()->label("SUBCOMMAND", "COMMAND");
  app->set_help_flag("-h,--help", "print this text");
  add_flag(*app, "-V,--version", options->version,
           "print version, compiler, backends, and why others are absent");
  add_flag(*app, "--json", options->json, "with --version: as JSON");
  app->footer(kExamples);
  app->parse_complete_callback([&app = *app, options] {
    if (app.get_subcommands().empty()) {
      run_without_command(app, *options);
    } else if (options->version || options->json) {
      const std::string name = app.get_subcommands().front()->get_name();
      fail_usage(fmt::format("{}: expected it without a command, got {}",
                             options->version ? "--version" : "--json", name),
                 options->json ? fmt::format("`vsa {} ... --json` prints JSON", name) : "");
    }
  });
  add_plan(*app);
  add_attend(*app);
#ifdef VSA_WITHOUT_VIDEO
  add_bench(*app);
#else
  add_inspect(*app);
  add_bench(*app);
  add_generate(*app);
  add_decode(*app);
  add_verify(*app);
#endif
  add_completion(*app);
  add_help(*app);
  for (CLI::App* command : app->get_subcommands([](CLI::App*) { return true; })) {
    command->group("Commands");
  }
  return app;
}

ExitCode run_application(const std::vector<std::string>& words) {
  const std::unique_ptr<CLI::App> app = make_application();
  const auto failed = [&](const std::string& message, const std::string& hint, ExitCode code) {
    const CLI::App& named = named_command(*app, words);
    report(&named == app.get() ? parsed_command(*app) : named, message, hint);
    return code;
  };
  try {
    check_words(*app, words);
    app->parse(
        std::vector<std::string>(words.rbegin(), words.rend()));  // it takes them from the end
    return ExitCode::kOk;
  } catch (const CLI::CallForHelp&) {
    try {
      print_result(app->help());
      return ExitCode::kOk;
    } catch (const Failure& e) {
      return failed(e.what(), e.hint(), e.code());
    }
  } catch (const CLI::ParseError& e) {
    const Failure failure = explain(*app, e);
    return failed(failure.what(), failure.hint(), failure.code());
  } catch (const Failure& e) {
    const bool interrupted = e.code() == ExitCode::kInterrupted;
    return failed(e.what(), e.hint(), interrupted ? interrupt_exit_code() : e.code());
  } catch (const std::bad_alloc&) {
    return failed("not enough memory", "", ExitCode::kFailed);
  } catch (const std::exception& e) {
    return failed(e.what(), "", ExitCode::kFailed);
  }
}

}  // namespace vsa::cli
