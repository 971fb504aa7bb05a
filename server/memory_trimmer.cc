#include "server/memory_trimmer.h"

#include <malloc.h>
#include <tbb/scalable_allocator.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "server/telemetry/process_metrics.h"

namespace topk {
namespace {

// With less traffic or growth, a trim would only cost the allocators their
// caches.
constexpr int64_t kWorthTrimming = int64_t{64} << 20;
// Seconds between two trims because of growth: without traffic, and with
// traffic, when allocations wait for the trim.
constexpr int kQuietPause = 3;
constexpr int kBusyPause = 30;

// How much free memory glibc keeps at the end of each arena, and the largest
// allocation from an arena.
constexpr int kKept = 64 << 20;
constexpr int kMaxFromArena = 32 << 20;

void Trim() {
  scalable_allocation_command(TBBMALLOC_CLEAN_ALL_BUFFERS, nullptr);
  malloc_trim(0);
}

}  // namespace

void KeepFreeMemory() {
  mallopt(M_TRIM_THRESHOLD, kKept);
  mallopt(M_MMAP_THRESHOLD, kMaxFromArena);
}

MemoryTrimmer::MemoryTrimmer(std::function<Activity()> activity)
    : thread_([activity = std::move(activity)](const std::stop_token& stop) {
        std::mutex mutex;
        std::condition_variable_any stopped;
        std::unique_lock lock(mutex);
        int64_t trimmed = 0;       // the bytes at the last trim
        Activity before{};         // a second ago
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
          // No counter covers the memory that gRPC took for calls that were
          // never delivered. A trim during a burst frees little, so the growth
          // is measured from the minimum size of the process, not from its size
          // after the last trim.
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
