// Tracks the calls in flight.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/mutex.h"

namespace topk {

/// A long-lived call.
class OpenStream {
 public:
  /// Ends the stream if it would no longer be admitted. Thread-safe.
  virtual void Recheck() = 0;

 protected:
  ~OpenStream() = default;
};

/// Counts the calls in flight, waits for them to end, and lists the open
/// streams. Thread-safe.
class OpenCalls {
 public:
  using Streams = std::list<std::weak_ptr<OpenStream>>;
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

  /// Adds a stream to the list. Pass the result to RemoveStream() when the
  /// stream is destroyed.
  Streams::iterator AddStream(std::weak_ptr<OpenStream> stream) {
    const MutexLock lock(mutex_);
    return streams_.insert(streams_.end(), std::move(stream));
  }
  void RemoveStream(Streams::iterator stream) {
    const MutexLock lock(mutex_);
    streams_.erase(stream);
  }

  /// Calls Recheck() on each open stream.
  void RecheckStreams() {
    std::vector<std::shared_ptr<OpenStream>> open;
    {
      const MutexLock lock(mutex_);
      for (const auto& stream : streams_) open.push_back(stream.lock());
    }
    // Unlocked: releasing a stream may destroy it, which calls RemoveStream().
    for (const auto& stream : open) {
      if (stream != nullptr) stream->Recheck();
    }
  }

  int64_t count() const { return count_; }

  /// The total number of calls so far.
  int64_t arrived() const { return arrived_; }

  /// Waits until no call is in flight, or the deadline has passed.
  void WaitUntilNone(Clock::time_point deadline) {
    const MutexLock lock(mutex_);
    none_.wait_until(mutex_, deadline, [this] { return count_ == 0; });
  }

  /// Waits until no call has arrived for `period`, or the deadline has passed.
  void WaitUntilNoneArrives(Clock::duration period,
                            Clock::time_point deadline) {
    int64_t before = 0;
    do {
      before = arrived_;
      std::this_thread::sleep_until(std::min(Clock::now() + period, deadline));
    } while (arrived_ != before && Clock::now() < deadline);
  }

 private:
  std::atomic<int64_t> count_ = 0;
  std::atomic<int64_t> arrived_ = 0;
  std::condition_variable_any none_;
  Mutex mutex_;
  Streams streams_ TOPK_GUARDED_BY(mutex_);
};

}  // namespace topk
