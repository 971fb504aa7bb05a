// Returns free memory to the OS after a burst.
#pragma once

#include <cstdint>

#include "server/threads/periodic.h"

namespace topk {

/// Makes glibc use fewer arenas and keep freed memory for the next messages
/// until MemoryTrimmer returns it to the OS. By default, glibc returns large
/// buffers at once, and page faults then take half of the CPU time of large
/// calls. With little memory, glibc keeps less. REQUIRES: the process has not
/// started a thread.
void KeepFreeMemory();

/// Decides when to trim: if the process has grown, every 30 s during work (3 s
/// if there is less than 1 GiB of memory), and every 3 s until 2 minutes after
/// the last work.
class TrimRule {
 public:
  /// `size` is the size of the process, and `memory` is its memory limit, both
  /// in bytes.
  TrimRule(double size, int64_t memory);

  /// Returns whether to trim now. Call every second. `works` is true if the
  /// process used much CPU time in the last second.
  bool IsDue(double size, bool works);

 private:
  const double worth_;  // the growth in bytes that is worth a trim
  const int pause_;     // between trims during work, in seconds
  double least_;        // the smallest size so far
  int since_trim_;      // in seconds
  int since_work_ = 0;  // in seconds
};

/// Returns the allocators' free memory to the OS. Otherwise, the allocators
/// would keep the memory of a burst, e.g. 700 MiB after 50 000 calls of unknown
/// methods.
class MemoryTrimmer {
 public:
  MemoryTrimmer();

 private:
  void TrimIfDue();

  TrimRule rule_;
  double cpu_seconds_;  // of the process, at the last call of TrimIfDue()
  Periodic check_;
};

}  // namespace topk
