// The subcommand `vsa completion`. Host-only.
#include "cli/completion/completion.h"

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/common/command.h"
#include "cli/common/output.h"

namespace vsa::cli {

void add_completion(CLI::App& app) {
  auto shell = std::make_shared<std::string>();
  CLI::App& command =
      *app.add_subcommand("completion", "print a script that completes command lines");
  add_choice(command, {.names = "shell", .kind = {}, .help = "the shell that reads the script"},
             {"bash", "zsh"}, *shell)
      .required();
  add_example(command, "source <(vsa completion bash)");
  command.callback([&app, shell] {
    print_result(*shell == "bash" ? bash_completion(app) : zsh_completion(app));
  });
}

}  // namespace vsa::cli
