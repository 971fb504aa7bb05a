// Returns free memory to the OS after a burst.
#pragma once

#include <cstdint>
#include <functional>
#include <thread>

namespace topk {

/// A snapshot of the server's activity.
struct Activity {
  int64_t open_calls;
  /// Calls received since the start.
  int64_t arrived;
  /// The total size of all inputs and outputs so far, in bytes.
  int64_t bytes;
};

/// Makes glibc use fewer arenas and keep freed memory for the next messages
/// until MemoryTrimmer returns it to the OS. By default, glibc returns large
/// buffers at once, and page faults then take half of the CPU time of large
/// calls. With little memory, glibc keeps less. REQUIRES: the process has not
/// started a thread.
void KeepFreeMemory();

/// Returns the allocators' free memory to the OS when the server becomes idle
/// after traffic. Also trims if the process has grown, but at most every 3 s,
/// or every 30 s during traffic if there is 1 GiB of memory or more. Otherwise,
/// the allocators would keep the memory of a burst, e.g. 700 MiB after 50 000
/// calls of unknown methods.
class MemoryTrimmer {
 public:
  /// Calls `activity` every second until this object is destroyed.
  explicit MemoryTrimmer(std::function<Activity()> activity);

 private:
  std::jthread thread_;
};

}  // namespace topk
