#include "cli/common/interrupt.h"

#include <unistd.h>

#include <csignal>

#include "cli/common/failure.h"

namespace vsa::cli {
namespace {

// A signal handler can reach nothing but globals.
std::atomic<int> g_scopes = 0;
std::atomic<bool> g_requested = false;
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

void on_signal(int) {
  if (g_scopes > 0 && !g_requested.exchange(true)) return;
  ::_exit(static_cast<int>(ExitCode::kInterrupted));
}

}  // namespace

void install_interrupt_handlers() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;  // a write that is under way goes on
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

InterruptScope::InterruptScope() {
  if (g_scopes == 0) g_requested = false;
  ++g_scopes;
}

InterruptScope::~InterruptScope() { --g_scopes; }

bool InterruptScope::requested() const { return g_requested; }

const std::atomic<bool>* InterruptScope::flag() const { return &g_requested; }

void InterruptScope::check() const {
  if (requested()) throw Failure(ExitCode::kInterrupted, "interrupted");
}

}  // namespace vsa::cli
