// The number of calls in flight.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace topk {

/// Counts calls, and waits for their end. Thread-safe.
class OpenCalls {
 public:
  using Clock = std::chrono::steady_clock;

  /// A call has arrived.
  void Enter() {
    ++arrived_;
    ++count_;
  }

  /// A call has ended.
  void Leave() {
    if (--count_ > 0) return;
    const std::lock_guard lock(mutex_);
    none_.notify_all();
  }

  int64_t count() const { return count_; }

  /// The number of calls since the start.
  int64_t arrived() const { return arrived_; }

  /// Waits until no call is in flight, or the deadline has passed.
  void WaitUntilNone(Clock::time_point deadline) {
    std::unique_lock lock(mutex_);
    none_.wait_until(lock, deadline, [this] { return count_ == 0; });
  }

  /// Waits until no call has arrived for `period`, or the deadline has passed.
  void WaitUntilNoneArrives(Clock::duration period,
                            Clock::time_point deadline) {
    std::unique_lock lock(mutex_);
    int64_t before = 0;
    const auto more = [&] { return arrived_ != before; };
    do {
      before = arrived_;
      none_.wait_until(lock, std::min(Clock::now() + period, deadline), more);
    } while (more() && Clock::now() < deadline);
  }

 private:
  std::atomic<int64_t> count_ = 0;
  std::atomic<int64_t> arrived_ = 0;
  std::mutex mutex_;
  std::condition_variable none_;
};

}  // namespace topk
