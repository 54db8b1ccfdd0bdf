// The entry of `vsa`: finds the subcommand, and turns whatever it throws into one line and an exit
// code.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <new>
#include <nlohmann/json.hpp>

#include "cli/common/build_info.h"
#include "cli/common/command.h"
#include "cli/common/failure.h"
#include "cli/common/interrupt.h"
#include "cli/common/output.h"

namespace vsa::cli {
namespace {

void report(const std::string& command, const std::string& message, const std::string& hint) {
  if (message.empty()) return;
  note(fmt::format("{}: error: {}", command, message));
  if (!hint.empty()) note(fmt::format("hint: {}", hint));
}

bool any_subcommand(const CLI::App*) { return true; }

/// "vsa plan" if the arguments name a subcommand, else "vsa".
std::string command_name(const CLI::App& app, int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    for (const CLI::App* command : app.get_subcommands(any_subcommand)) {
      if (command->get_name() == argv[i]) return "vsa " + command->get_name();
    }
  }
  return "vsa";
}

/// CLI11 spreads some of its messages over several lines.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// Parses, which runs the subcommand. False if the help was asked for, and printed.
bool parse_and_run(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return true;
  } catch (const CLI::CallForHelp&) {
    print_result(app.help());
    return false;
  }
}

ExitCode run(CLI::App& app, int argc, char** argv) {
  bool version = false;
  bool json = false;
  app.require_subcommand(0, 1);
  app.add_flag("--version", version, "version, compiler, backends and why others are absent");
  app.add_flag("--json", json, "with --version: as JSON");
  app.set_help_flag("-h,--help", "this text");
  app.option_defaults()->always_capture_default(false);
  add_plan(app);
  add_attend(app);
#ifdef VSA_WITHOUT_VIDEO
  add_bench(app);
#else
  add_inspect(app);
  add_bench(app);
  add_generate(app);
  add_decode(app);
  add_verify(app);
#endif

  const std::string command = command_name(app, argc, argv);
  try {
    if (!parse_and_run(app, argc, argv)) return ExitCode::kOk;
    if (version) {
      json ? print_json(version_json()) : print_result(version_text());
    } else if (app.get_subcommands().empty()) {
      fail_usage("expected a subcommand", "vsa --help lists them");
    }
    return ExitCode::kOk;
  } catch (const CLI::ParseError& e) {
    report(command, first_line(e.what()), command + " --help lists the options");
    return ExitCode::kUsage;
  } catch (const Failure& e) {
    report(command, e.what(), e.hint());
    return e.code() == ExitCode::kInterrupted ? interrupt_exit_code() : e.code();
  } catch (const std::bad_alloc&) {
    report(command, "not enough memory", "");
    return ExitCode::kFailed;
  } catch (const std::exception& e) {
    report(command, e.what(), "");
    return ExitCode::kFailed;
  }
}

}  // namespace
}  // namespace vsa::cli

int main(int argc, char** argv) {
  vsa::cli::open_standard_streams();
  // A closed pipe and a file beyond `ulimit -f` are errors of write(2), reported like every other.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  vsa::cli::install_interrupt_handlers();
  CLI::App app("Video Sparse Attention: the operator, its tools, and video generation.", "vsa");
  return static_cast<int>(vsa::cli::run(app, argc, argv));
}
