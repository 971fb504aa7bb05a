#include "server/memory_trimmer.h"

#include <malloc.h>
#include <tbb/scalable_allocator.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <ctime>
#include <mutex>

#include "core/base/process_limits.h"
#include "server/admission/memory_limit.h"
#include "server/telemetry/process_metrics.h"

namespace topk {
namespace {

// The CPU time that a process must have used before another trim. An idle
// server uses less in a minute.
constexpr double kMinCpuSeconds = 0.1;

double CpuSeconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
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

// After less growth, a trim would only empty the allocators' caches. A trim
// blocks allocations, so trim rarely, except with little memory.
TrimRule::TrimRule(double size, int64_t memory)
    : worth_(static_cast<double>(
          std::clamp(memory / 16, int64_t{4} << 20, int64_t{64} << 20))),
      pause_(memory < kSmallMemory ? 3 : 30),
      least_(size),
      seconds_(pause_) {}

bool TrimRule::IsDue(double size, double cpu_seconds) {
  least_ = std::min(least_, size);
  ++seconds_;
  // Measure growth from the smallest size: the size after a trim during a burst
  // is still high. Measure work as CPU time, because no count of calls includes
  // those that gRPC never delivers.
  if (size - least_ < worth_ || seconds_ < pause_ ||
      cpu_seconds - trimmed_at_cpu_ < kMinCpuSeconds) {
    return false;
  }
  seconds_ = 0;
  trimmed_at_cpu_ = cpu_seconds;
  return true;
}

MemoryTrimmer::MemoryTrimmer()
    : thread_([](const std::stop_token& stop) {
        std::mutex mutex;
        std::condition_variable_any stopped;
        std::unique_lock lock(mutex);
        TrimRule rule(AnonymousBytes(), MemoryLimit());
        while (!stopped.wait_for(lock, stop, std::chrono::seconds(1),
                                 [&] { return stop.stop_requested(); })) {
          if (rule.IsDue(AnonymousBytes(), CpuSeconds())) Trim();
        }
      }) {}

}  // namespace topk
