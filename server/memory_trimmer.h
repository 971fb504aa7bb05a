// Releases memory to the OS after a burst.
#pragma once

#include <cstdint>
#include <functional>
#include <thread>

namespace topk {

/// The server's activity, by which the trimmer decides.
struct Activity {
  /// Calls in flight.
  int64_t open_calls;
  /// Bytes of all inputs and outputs since the start.
  int64_t bytes;
};

/// Lets glibc keep the memory of a message for the next one. By default it
/// returns that of each message, and the page faults for the next one took half
/// of the CPU time of large calls. MemoryTrimmer returns what stays. Call it
/// before there are threads.
void KeepFreeMemory();

/// Gives the allocators' free memory back once the server is idle, or the
/// process is larger than it was: every few seconds while nothing moves, twice
/// a minute otherwise. They keep what a burst needed: 145 MiB after a few
/// answers of 36 MB, 700 after 50 000 calls of unknown methods.
class MemoryTrimmer {
 public:
  /// Asks for the activity every second until it is destroyed.
  explicit MemoryTrimmer(std::function<Activity()> activity);

 private:
  std::jthread thread_;
};

}  // namespace topk
