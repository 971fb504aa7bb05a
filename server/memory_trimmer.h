// Returns free memory to the OS after a burst.
#pragma once

#include <memory>

#include "server/threads/periodic.h"

namespace topk {

/// Makes glibc use fewer arenas and keep freed memory for the next messages
/// until TrimMemory() returns it to the OS. By default, glibc returns large
/// buffers at once, and page faults then take half of the CPU time of large
/// calls. With little memory, glibc keeps less. REQUIRES: the process has not
/// started a thread.
void KeepFreeMemory();

/// Starts to return the allocators' free memory to the OS every 30 s (3 s if
/// there is less than 1 GiB of memory), until the result is destroyed.
/// Otherwise, the allocators would keep the memory of a burst, e.g. 700 MiB
/// after 50 000 calls of unknown methods.
std::unique_ptr<Periodic> TrimMemory();

}  // namespace topk
