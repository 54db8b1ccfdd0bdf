// Handlers of SIGINT, SIGTERM and SIGHUP. Host-only.
#include "cli/common/interrupt.h"

#include <unistd.h>

#include <csignal>

namespace vsa::cli {
namespace {

// A signal handler can reach nothing but globals.
std::atomic<int> g_scopes = 0;
std::atomic<bool> g_requested = false;
std::atomic<bool> g_insisted = false;  // SIGINT or SIGTERM came: the next one ends the process
std::atomic<int> g_signal = 0;         // the first one
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

void on_signal(int signal) {
  const bool insists = signal != SIGHUP;
  // Once requested, the program is about to end, whether its scope lives or not.
  const bool waits = g_scopes > 0 || g_requested;
  if (waits && !(insists && g_insisted.exchange(true))) {
    if (!g_requested.exchange(true)) g_signal = signal;
    return;
  }
  ::_exit(128 + signal);
}

}  // namespace

void install_interrupt_handlers() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action = {};
    sigaction(signal, nullptr, &action);
    if (action.sa_handler == SIG_IGN) continue;
    action = {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;  // a write that has begun is continued
    sigaction(signal, &action, nullptr);
  }
}

ExitCode interrupt_exit_code() {
  const int signal = g_signal;
  return signal == 0 ? ExitCode::kInterrupted : static_cast<ExitCode>(128 + signal);
}

InterruptScope::InterruptScope() {
  if (g_scopes == 0) {
    g_requested = false;
    g_insisted = false;
  }
  ++g_scopes;
}

InterruptScope::~InterruptScope() { --g_scopes; }

bool InterruptScope::requested() const { return g_requested; }

const std::atomic<bool>* InterruptScope::flag() const { return &g_requested; }

void InterruptScope::check() const {
  if (requested()) throw Failure(ExitCode::kInterrupted, "interrupted");
}

}  // namespace vsa::cli
