#include "core/base/deferred_free.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

namespace topk {
namespace {

struct Garbage {
  void* memory;
  size_t bytes;
  void (*free)(void*);
};

// A thread that frees memory.
class Reaper {
 public:
  void Take(const Garbage& garbage) {
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(garbage);
    }
    wake_.notify_one();
  }

 private:
  // Ends once a stop is requested and no garbage is left.
  void Run(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (wake_.wait(lock, stop, [this] { return !waiting_.empty(); })) {
      std::vector<Garbage> taken;
      taken.swap(waiting_);
      lock.unlock();
      for (const Garbage& garbage : taken) {
        DropPages(garbage.memory, garbage.bytes);
        garbage.free(garbage.memory);
      }
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::vector<Garbage> waiting_;
  // Declared last: the thread uses all members above.
  std::jthread thread_{[this](const std::stop_token& stop) { Run(stop); }};
};

}  // namespace

void DropPages(void* memory, size_t bytes) noexcept {
  constexpr size_t kStep = size_t{4} << 20;
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  const uintptr_t end = (begin + bytes) / page * page;
  for (uintptr_t at = (begin + page - 1) / page * page; at < end;) {
    const size_t size = std::min(end - at, kStep);
    // It need not succeed.
    (void)madvise(reinterpret_cast<void*>(at), size, MADV_DONTNEED);
    at += size;
  }
}

void DeferFree(void* memory, size_t bytes, void (*free)(void*)) noexcept {
  try {
    static Reaper reaper;
    reaper.Take({memory, bytes, free});
  } catch (...) {  // no thread, or no memory
    free(memory);
  }
}

}  // namespace topk
