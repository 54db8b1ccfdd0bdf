// The entry of `vsa`: signals and standard streams, then the command line.
#include <csignal>

#include "cli/application.h"
#include "cli/common/interrupt.h"
#include "cli/common/output.h"

int main(int argc, char** argv) {
  vsa::cli::open_standard_streams();
  // A closed pipe and a file beyond `ulimit -f` are errors of write(2), reported like every other.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  vsa::cli::install_interrupt_handlers();
  const std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  return static_cast<int>(vsa::cli::run_application(words));
}
