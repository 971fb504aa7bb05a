#include "server/memory_trimmer.h"

#include <malloc.h>
#include <tbb/scalable_allocator.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "server/telemetry/process_metrics.h"

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
        double resident = ResidentBytes();
        while (!stop.stop_requested()) {
          stopped.wait_for(lock, stop, std::chrono::seconds(1),
                           [] { return false; });
          const Activity now = activity();
          const bool quiet = now.bytes == before;
          before = now.bytes;
          // What gRPC took for calls that never reached us is in no count.
          const bool worth =
              (now.open_calls == 0 && now.bytes - trimmed >= kWorthTrimming) ||
              ResidentBytes() - resident >= kWorthTrimming;
          if (!quiet || !worth) continue;
          Trim();
          trimmed = now.bytes;
          resident = ResidentBytes();
        }
      }) {}

}  // namespace topk
