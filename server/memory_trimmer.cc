#include "server/memory_trimmer.h"

#include <malloc.h>
#include <tbb/scalable_allocator.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "core/base/process_limits.h"
#include "server/telemetry/process_metrics.h"

namespace topk {
namespace {

// Trim only after this much traffic or growth, in bytes. An earlier trim would
// only empty the allocators' caches.
constexpr int64_t kWorthTrimming = int64_t{64} << 20;
// Minimum time in seconds between two trims caused by growth, without and with
// traffic. Trims are rarer under traffic, because they block allocations.
constexpr int kQuietPause = 3;
constexpr int kBusyPause = 30;

// The free memory that glibc keeps at the end of each arena, and the largest
// allocation that it serves from an arena.
constexpr int kTrimThreshold = 64 << 20;
constexpr int kMaxFromArena = 32 << 20;
// glibc's default of 8 arenas per processor makes a flood of calls take twice
// the memory, because freed memory is only reused within its arena.
constexpr int kArenasPerProcessor = 2;

void Trim() {
  scalable_allocation_command(TBBMALLOC_CLEAN_ALL_BUFFERS, nullptr);
  malloc_trim(0);
}

}  // namespace

void KeepFreeMemory() {
  mallopt(M_TRIM_THRESHOLD, kTrimThreshold);
  mallopt(M_MMAP_THRESHOLD, kMaxFromArena);
  mallopt(M_ARENA_MAX, kArenasPerProcessor * AvailableProcessors());
}

MemoryTrimmer::MemoryTrimmer(std::function<Activity()> activity)
    : thread_([activity = std::move(activity)](const std::stop_token& stop) {
        std::mutex mutex;
        std::condition_variable_any stopped;
        std::unique_lock lock(mutex);
        int64_t trimmed = 0;       // `now.bytes` at the last trim
        Activity before{};         // one second ago
        int seconds = kBusyPause;  // since the last trim
        double least = AnonymousBytes();
        while (!stopped.wait_for(lock, stop, std::chrono::seconds(1),
                                 [&] { return stop.stop_requested(); })) {
          const Activity now = activity();
          const bool quiet =
              now.arrived == before.arrived && now.bytes == before.bytes;
          before = now;
          ++seconds;
          const bool idle = quiet && now.open_calls == 0 &&
                            now.bytes - trimmed >= kWorthTrimming;
          // Activity does not count the memory that gRPC allocated for calls
          // that were never delivered, so also look at the size of the process.
          // A trim during a burst frees little, so measure growth from the
          // minimum size, not from the size after the last trim.
          const double size = AnonymousBytes();
          least = std::min(least, size);
          const bool grown = size - least >= kWorthTrimming &&
                             seconds >= (quiet ? kQuietPause : kBusyPause);
          if (!idle && !grown) continue;
          Trim();
          trimmed = now.bytes;
          seconds = 0;
        }
      }) {}

}  // namespace topk
