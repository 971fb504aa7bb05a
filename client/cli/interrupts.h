// Signals that end the process: SIGINT, SIGTERM and SIGHUP.
#pragma once

#include <cstddef>

#include "topk/shared_memory.h"

namespace topk::cli {

/// Sets the handler of the signals that are not ignored. nohup(1), for example,
/// ignores SIGHUP.
void HandleInterrupts(void (*handler)(int));

/// A signal handler that unlinks the shared memory of CreateShared(), and lets
/// the signal end the process.
void EndProcess(int signal);

/// Creates shared memory with a unique name. Call HandleInterrupts() first, and
/// this function only once.
Result<SharedMemory> CreateShared(size_t bytes);

}  // namespace topk::cli
