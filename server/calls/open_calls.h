// Tracks the calls in flight.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <thread>

#include "core/common/mutex.h"
#include "server/calls/observers.h"

namespace topk {

/// Counts the calls in flight and waits for them to end. Thread-safe.
class OpenCalls {
 public:
  using Clock = std::chrono::steady_clock;

  /// Records the arrival of a call.
  void Enter() {
    ++arrived_;
    ++count_;
  }

  /// Records the end of a call.
  void Leave() {
    if (--count_ > 0) return;
    const MutexLock lock(mutex_);
    none_.notify_all();
  }

  /// The open streams: if `many` is true, calls with many requests, otherwise
  /// StreamTopK calls. OnChange() ends a stream that would no longer be
  /// admitted.
  Observers& streams(bool many) { return many ? many_ : streams_; }
  void NotifyStreams() {
    many_.Notify();
    streams_.Notify();
  }

  int64_t count() const { return count_; }

  /// The total number of calls so far.
  int64_t arrived() const { return arrived_; }

  /// Waits until no call is in flight, or the deadline has passed.
  void WaitUntilNone(Clock::time_point deadline) {
    const MutexLock lock(mutex_);
    none_.wait_until(mutex_, deadline, [this] { return count_ == 0; });
  }

  /// Waits for `period`, but at most until the deadline. Returns whether a call
  /// has arrived and the deadline has not passed.
  bool ArrivesWithin(Clock::duration period, Clock::time_point deadline) {
    const int64_t before = arrived_;
    std::this_thread::sleep_until(std::min(Clock::now() + period, deadline));
    return arrived_ != before && Clock::now() < deadline;
  }

 private:
  std::atomic<int64_t> count_ = 0;
  std::atomic<int64_t> arrived_ = 0;
  std::condition_variable_any none_;
  Mutex mutex_;
  Observers many_;
  Observers streams_;
};

}  // namespace topk
