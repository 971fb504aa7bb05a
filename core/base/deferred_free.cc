#include "core/base/deferred_free.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace topk {
namespace {

struct Garbage {
  void* memory;
  size_t bytes;
  void (*free)(void*);
};

// One thread that frees what it is given, from the first time on.
class Reaper {
 public:
  Reaper() : thread_([this] { Run(); }) {}

  ~Reaper() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }

  void Take(const Garbage& garbage) {
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(garbage);
    }
    wake_.notify_one();
  }

 private:
  void Run() {
    std::unique_lock lock(mutex_);
    while (!ending_ || !waiting_.empty()) {
      wake_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
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
  std::condition_variable wake_;
  std::vector<Garbage> waiting_;
  bool ending_ = false;
  std::thread thread_;  // last: it uses all of the above
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
