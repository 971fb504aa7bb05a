#include "core/base/deferred_free.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>

namespace topk {
namespace {

// A background thread that frees memory.
class FreeingThread {
 public:
  // Never destroyed, because static objects may free memory at process exit.
  static FreeingThread& Get() {
    static FreeingThread& thread = *new FreeingThread;
    return thread;
  }

  // Leaves `free` unchanged if this throws.
  void Add(size_t bytes, std::function<void()>& free) {
    {
      const std::lock_guard lock(mutex_);
      waiting_.emplace_back() = {bytes, std::move(free)};
      bytes_ += bytes;
    }
    wake_.notify_one();
  }

  // Frees blocks on the calling thread until `most` bytes are freed, or no more
  // than kLargeBytes remain enqueued. Skips blocks larger than both `most` and
  // kLargeBytes, so that a small allocation does not wait for gigabytes.
  void Help(size_t most) {
    std::unique_lock lock(mutex_);
    const size_t largest = std::max(most, kLargeBytes);
    for (size_t freed = 0; freed < most && bytes_ > kLargeBytes;) {
      const auto found =
          std::ranges::find_if(waiting_, [&](const Block& block) {
            return block.bytes > 0 && block.bytes <= largest;
          });
      if (found == waiting_.end()) return;
      std::swap(*found, waiting_.front());
      freed += FreeOne(lock);
    }
  }

 private:
  struct Block {
    size_t bytes;
    std::function<void()> free;
  };

  // Removes the first block and frees it while the mutex is unlocked. Returns
  // the size of the block. REQUIRES: a block is enqueued.
  size_t FreeOne(std::unique_lock<std::mutex>& lock) {
    Block block = std::move(waiting_.front());
    waiting_.pop_front();
    bytes_ -= block.bytes;
    lock.unlock();
    block.free();
    block.free = nullptr;
    lock.lock();
    return block.bytes;
  }

  FreeingThread() {
    std::thread([this] { Run(); }).detach();
  }

  [[noreturn]] void Run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [this] { return !waiting_.empty(); });
      FreeOne(lock);
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Block> waiting_;
  size_t bytes_ = 0;  // of waiting_
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

void DeferFree(size_t bytes, std::function<void()> free) noexcept {
  try {
    FreeingThread::Get().Add(bytes, free);
  } catch (...) {  // no thread or no memory
    free();
  }
}

void FreeForAllocation(size_t bytes) noexcept {
  constexpr size_t kSmall = size_t{1} << 20;
  if (bytes < kSmall) return;
  try {
    FreeingThread::Get().Help(2 * bytes);
  } catch (...) {
    // If the thread cannot start, DeferFree() frees memory immediately.
  }
}

}  // namespace topk
