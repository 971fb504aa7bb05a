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

struct Block {
  void* memory;
  size_t bytes;
  void (*free)(void*);
};

// A background thread that frees memory.
class FreeingThread {
 public:
  void Add(const Block& block) {
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(block);
    }
    wake_.notify_one();
  }

 private:
  // Returns when a stop is requested and nothing is left to free.
  void Run(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (wake_.wait(lock, stop, [this] { return !waiting_.empty(); })) {
      std::vector<Block> taken;
      taken.swap(waiting_);
      lock.unlock();
      for (const Block& block : taken) {
        DropPages(block.memory, block.bytes);
        block.free(block.memory);
      }
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::vector<Block> waiting_;
  // Declared last, because the thread uses the members above.
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
    // Best effort: ignore errors.
    (void)madvise(reinterpret_cast<void*>(at), size, MADV_DONTNEED);
    at += size;
  }
}

void DeferFree(void* memory, size_t bytes, void (*free)(void*)) noexcept {
  try {
    static FreeingThread thread;
    thread.Add({memory, bytes, free});
  } catch (...) {  // no thread or no memory
    free(memory);
  }
}

}  // namespace topk
