#include "client/cli/interrupts.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <string>

#include "core/base/text.h"

namespace topk::cli {
namespace {

// The names of all objects. Objects are only added, and never freed, so that a
// signal handler can read the list.
struct Name {
  std::string text;
  Name* next;
};
std::atomic<Name*> shared_names = nullptr;
static_assert(std::atomic<Name*>::is_always_lock_free);

}  // namespace

void HandleInterrupts(void (*handler)(int)) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    sigaction(signal, nullptr, &action);
    if (action.sa_handler == SIG_IGN) continue;
    action = {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    sigaction(signal, &action, nullptr);
  }
}

void EndProcess(int signal) {
  for (const Name* name = shared_names; name != nullptr; name = name->next) {
    shm_unlink(name->text.c_str());  // glibc's is safe in a signal handler
  }
  HandleInterrupts(SIG_DFL);
  raise(signal);
}

Result<SharedMemory> CreateShared(size_t bytes) {
  std::random_device random;
  auto* const name = new Name{
      StrCat("/topk-", getpid(), "-", random(), random()), shared_names.load()};
  while (!shared_names.compare_exchange_weak(name->next, name)) {
  }
  return SharedMemory::Create(name->text, bytes);
}

}  // namespace topk::cli
