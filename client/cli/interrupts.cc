#include "client/cli/interrupts.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <climits>
#include <random>
#include <string>

#include "core/base/text.h"

namespace topk::cli {
namespace {

// The name of the process's object, which a signal handler unlinks.
char shared_name[NAME_MAX] = "";

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
  shm_unlink(shared_name);  // glibc's is safe in a signal handler
  HandleInterrupts(SIG_DFL);
  raise(signal);
}

Result<SharedMemory> CreateShared(size_t bytes) {
  std::random_device random;
  const std::string name = StrCat("/topk-", getpid(), "-", random());
  name.copy(shared_name, NAME_MAX - 1);
  return SharedMemory::Create(name, bytes);
}

}  // namespace topk::cli
