// Ctrl-C: at once where nothing would be lost, at the next safe point elsewhere. Host-only.
#pragma once

#include <atomic>

namespace vsa::cli {

/// Without an InterruptScope, SIGINT and SIGTERM end the process with exit code 130 at once.
void install_interrupt_handlers();

/// While one lives, the first SIGINT or SIGTERM only sets a flag; the work is expected to stop soon
/// and keep what it has. The second one ends the process. Scopes may lie within each other: a
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
