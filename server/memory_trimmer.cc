#include "server/memory_trimmer.h"

#include <malloc.h>
#include <tbb/scalable_allocator.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "core/base/process_limits.h"
#include "server/admission/memory_limit.h"
#include "server/telemetry/process_metrics.h"

namespace topk {
namespace {

// Minimum seconds between trims after the process has grown. A trim blocks
// allocations, so trim less often during traffic, except with little memory.
constexpr int kQuietPause = 3;  // without traffic
constexpr int kBusyPause = 30;  // during traffic

// Returns the number of bytes that requests must have used, or by which the
// process must have grown, before a trim. Earlier trims would only empty the
// allocators' caches.
int64_t WorthTrimming() {
  return std::clamp(MemoryLimit() / 16, int64_t{4} << 20, int64_t{64} << 20);
}

// Returns the maximum number of free bytes that glibc keeps at the end of each
// arena. Allocations of up to half this size come from arenas.
int KeptBytes() {
  const int64_t memory = MemoryLimit();
  if (memory >= kSmallMemory) return 64 << 20;
  return static_cast<int>(std::max(memory / 64, int64_t{1} << 20));
}

// glibc reuses freed memory only within its arena. With the default of 8 arenas
// per processor, a flood of calls would use twice the memory.
constexpr int kArenasPerProcessor = 2;

void Trim() {
  scalable_allocation_command(TBBMALLOC_CLEAN_ALL_BUFFERS, nullptr);
  malloc_trim(0);
}

}  // namespace

void KeepFreeMemory() {
  mallopt(M_TRIM_THRESHOLD, KeptBytes());
  mallopt(M_MMAP_THRESHOLD, KeptBytes() / 2);
  mallopt(M_ARENA_MAX, kArenasPerProcessor * AvailableProcessors());
}

MemoryTrimmer::MemoryTrimmer(std::function<Activity()> activity)
    : thread_([activity = std::move(activity)](const std::stop_token& stop) {
        std::mutex mutex;
        std::condition_variable_any stopped;
        std::unique_lock lock(mutex);
        const int64_t worth = WorthTrimming();
        const int busy_pause =
            MemoryLimit() < kSmallMemory ? kQuietPause : kBusyPause;
        int64_t trimmed = 0;       // `now.bytes` at the last trim
        Activity before{};         // one second ago
        int seconds = busy_pause;  // since the last trim
        double least = AnonymousBytes();
        while (!stopped.wait_for(lock, stop, std::chrono::seconds(1),
                                 [&] { return stop.stop_requested(); })) {
          const Activity now = activity();
          const bool quiet =
              now.arrived == before.arrived && now.bytes == before.bytes;
          before = now;
          ++seconds;
          const bool idle =
              quiet && now.open_calls == 0 && now.bytes - trimmed >= worth;
          // Check the size of the process too, because Activity does not count
          // calls that gRPC never delivered. Measure growth from the smallest
          // size seen: the size after a trim during a burst is still high.
          const double size = AnonymousBytes();
          least = std::min(least, size);
          const bool grown = size - least >= static_cast<double>(worth) &&
                             seconds >= (quiet ? kQuietPause : busy_pause);
          if (!idle && !grown) continue;
          Trim();
          trimmed = now.bytes;
          seconds = 0;
        }
      }) {}

}  // namespace topk
