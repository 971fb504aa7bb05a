#include "server/memory_trimmer.h"

#include <malloc.h>
#include <tbb/scalable_allocator.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "core/common/process_limits.h"
#include "server/admission/memory_limit.h"

namespace topk {
namespace {

// A trim blocks allocations, so trim less often if there is more memory.
constexpr std::chrono::seconds kShortPause{3};
constexpr std::chrono::seconds kLongPause{30};

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

}  // namespace

void KeepFreeMemory() {
  mallopt(M_TRIM_THRESHOLD, KeptBytes());
  mallopt(M_MMAP_THRESHOLD, KeptBytes() / 2);
  mallopt(M_ARENA_MAX, kArenasPerProcessor * AvailableProcessors());
}

std::unique_ptr<Periodic> TrimMemory() {
  return std::make_unique<Periodic>(
      MemoryLimit() < kSmallMemory ? kShortPause : kLongPause, [] {
        scalable_allocation_command(TBBMALLOC_CLEAN_ALL_BUFFERS, nullptr);
        malloc_trim(0);
      });
}

}  // namespace topk
