#include "server/memory_trimmer.h"

#include <malloc.h>
#include <tbb/scalable_allocator.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace topk {
namespace {

// Whoever sends little keeps what the allocators have at hand.
constexpr int64_t kWorthTrimming = int64_t{64} << 20;

void Trim() {
  scalable_allocation_command(TBBMALLOC_CLEAN_ALL_BUFFERS, nullptr);
  malloc_trim(0);
}

}  // namespace

MemoryTrimmer::MemoryTrimmer(std::function<Activity()> activity)
    : thread_([activity = std::move(activity)](const std::stop_token& stop) {
        std::mutex mutex;
        std::condition_variable_any stopped;
        std::unique_lock lock(mutex);
        int64_t trimmed = 0;  // the bytes at the last trim
        int64_t before = 0;   // and a second ago
        while (!stop.stop_requested()) {
          stopped.wait_for(lock, stop, std::chrono::seconds(1),
                           [] { return false; });
          const Activity now = activity();
          const bool idle = now.open_calls == 0 && now.bytes == before;
          before = now.bytes;
          if (!idle || now.bytes - trimmed < kWorthTrimming) continue;
          Trim();
          trimmed = now.bytes;
        }
      }) {}

}  // namespace topk
