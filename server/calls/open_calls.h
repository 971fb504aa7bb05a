// The number of calls in flight.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace topk {

/// Counts calls, and waits for their end. Thread-safe.
class OpenCalls {
 public:
  /// A call has arrived.
  void Enter() { ++count_; }

  /// A call has ended.
  void Leave() {
    if (--count_ > 0) return;
    const std::lock_guard lock(mutex_);
    none_.notify_all();
  }

  int64_t count() const { return count_; }

  /// Waits until no call is in flight, or the deadline has passed.
  void WaitUntilNone(std::chrono::steady_clock::time_point deadline) {
    std::unique_lock lock(mutex_);
    none_.wait_until(lock, deadline, [this] { return count_ == 0; });
  }

 private:
  std::atomic<int64_t> count_ = 0;
  std::mutex mutex_;
  std::condition_variable none_;
};

}  // namespace topk
