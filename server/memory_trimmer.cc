#include "server/memory_trimmer.h"

#include <malloc.h>
#include <tbb/scalable_allocator.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <ctime>

#include "core/common/process_limits.h"
#include "server/admission/memory_limit.h"
#include "server/telemetry/process_metrics.h"

namespace topk {
namespace {

// The process works if it uses more CPU time than this in a second.
constexpr double kMaxIdleCpuSeconds = 0.1;
// How long memory may be freed after the last work, e.g. by connections that
// time out.
constexpr int kFreeingSeconds = 120;
// The pause between trims after the last work, and with little memory. A trim
// blocks allocations, so trim less often during work if there is more memory.
constexpr int kShortPause = 3;
constexpr int kLongPause = 30;

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

// After less growth, a trim would only empty the allocators' caches.
TrimRule::TrimRule(double size, int64_t memory)
    : worth_(static_cast<double>(
          std::clamp(memory / 16, int64_t{4} << 20, int64_t{64} << 20))),
      pause_(memory < kSmallMemory ? kShortPause : kLongPause),
      least_(size),
      since_trim_(pause_) {}

bool TrimRule::IsDue(double size, bool works) {
  // Measure growth from the smallest size: the size after a trim during a burst
  // is still high.
  least_ = std::min(least_, size);
  ++since_trim_;
  since_work_ = works ? 0 : since_work_ + 1;
  if (size - least_ < worth_ || since_work_ > kFreeingSeconds ||
      since_trim_ < (works ? pause_ : kShortPause)) {
    return false;
  }
  since_trim_ = 0;
  return true;
}

MemoryTrimmer::MemoryTrimmer()
    : rule_(AnonymousBytes(), MemoryLimit()),
      cpu_seconds_(CpuSeconds()),
      check_(std::chrono::seconds(1), [this] { TrimIfDue(); }) {}

void MemoryTrimmer::TrimIfDue() {
  // Measure work as CPU time, because no count of calls includes those that
  // gRPC never delivers.
  const bool works = CpuSeconds() - cpu_seconds_ > kMaxIdleCpuSeconds;
  if (rule_.IsDue(AnonymousBytes(), works)) Trim();
  cpu_seconds_ = CpuSeconds();
}

}  // namespace topk
