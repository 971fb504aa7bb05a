#include "client/bench/interrupt.h"

#include <signal.h>

#include <atomic>

namespace topk::cli {
namespace {

// Global, because a signal handler has no other state.
std::atomic<bool> interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free);

constexpr int kSignals[] = {SIGINT, SIGTERM};

void SetHandler(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  for (const int signal : kSignals) sigaction(signal, &action, nullptr);
}

void Note(int) {
  // Restore the defaults of both SIGINT and SIGTERM: the next signal may be
  // either.
  SetHandler(SIG_DFL);
  interrupted = true;
}

}  // namespace

InterruptGuard::InterruptGuard() {
  interrupted = false;
  SetHandler(Note);
}

InterruptGuard::~InterruptGuard() { SetHandler(SIG_DFL); }

bool InterruptGuard::Interrupted() { return interrupted; }

}  // namespace topk::cli
