// Signals that ask the program to stop: at once where nothing would be lost, at the next safe point
// elsewhere. Host-only.
#pragma once

#include <atomic>

#include "cli/common/failure.h"

namespace vsa::cli {

/// Handles SIGINT (Ctrl-C), SIGTERM (schedulers, `kill`) and SIGHUP (a connection that is lost). A
/// signal that this process was started to ignore, as nohup and a shell's `&` do, stays ignored.
/// Without an InterruptScope each ends the process at once, with exit code 128 + its number.
void install_interrupt_handlers();

/// What an interrupted program ends with: 128 + the number of the first signal, as a shell reports
/// it (SIGHUP 129, SIGINT 130, SIGTERM 143). kInterrupted if there was none.
ExitCode interrupt_exit_code();

/// While one lives, the first signal only sets a flag; the work is expected to stop soon and keep
/// what it has. A second SIGINT or SIGTERM ends the process; SIGHUP does not, because a terminal
/// that closes sends it twice, by the kernel and by the shell. Scopes may lie within each other: a
/// signal in any of them counts until the outermost ends.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  bool requested() const;
  /// For work that polls a flag of its own accord.
  const std::atomic<bool>* flag() const;
  /// Throws Failure(kInterrupted) if requested.
  void check() const;
};

}  // namespace vsa::cli
