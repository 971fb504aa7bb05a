// Releases memory to the OS after a burst.
#pragma once

#include <cstdint>
#include <functional>
#include <thread>

namespace topk {

/// The activity of the server.
struct Activity {
  /// Calls in flight.
  int64_t open_calls;
  /// Calls that have arrived since the start.
  int64_t arrived;
  /// Bytes of all inputs and outputs since the start.
  int64_t bytes;
};

/// Lets glibc keep the memory of a message for the next message. By default
/// glibc returns it, and the page faults for the next message take half of the
/// CPU time of large calls. MemoryTrimmer returns the memory later. Call this
/// before the process starts a thread.
void KeepFreeMemory();

/// Returns the free memory of the allocators to the OS when the server becomes
/// idle after traffic, and when the process has grown: every few seconds
/// without traffic, twice a minute with traffic. Otherwise the allocators keep
/// what a burst needed: 145 MiB after a few responses of 36 MB, 700 MiB after
/// 50 000 calls of unknown methods.
class MemoryTrimmer {
 public:
  /// Asks for the activity every second until it is destroyed.
  explicit MemoryTrimmer(std::function<Activity()> activity);

 private:
  std::jthread thread_;
};

}  // namespace topk
