// Decides how many pollers run.
#pragma once

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <ctime>
#include <deque>
#include <optional>

#include "core/common/mutex.h"

namespace topk {

/// Lets as many pollers run as the load needs. The others are parked. If they
/// waited for events instead, gRPC would hand each event to a sleeping thread,
/// and waking a thread can take longer than serving a small call. Thread-safe.
class ActivePollers {
 public:
  using Clock = std::chrono::steady_clock;

  /// At most one poller is added per kPeriod. One is parked when the running
  /// pollers have not all been needed for kPatience.
  static constexpr std::chrono::milliseconds kPeriod{2};
  static constexpr std::chrono::milliseconds kPatience{100};

  /// Poller 0 always runs. REQUIRES: `pollers` >= 1.
  explicit ActivePollers(int pollers);

  /// Counts the CPU time of the calling thread, poller `poller`. Call once.
  void Register(int poller);

  /// Returns whether a poller runs. Otherwise, it should call Park().
  bool IsActive(int poller) const {
    return poller < active_.load(std::memory_order_relaxed);
  }

  /// Blocks until the poller runs again. Returns false if Close() is called
  /// while the poller is parked.
  bool Park(int poller);

  /// Changes the number of pollers that run, according to their CPU time in the
  /// last period. If events have waited (`is_behind`), the CPU time says
  /// little, because other threads used the CPUs; then one more poller runs.
  /// Otherwise, at most as many pollers run as there are `calls`: two pollers
  /// for one stream would wake each other for each message, and use almost
  /// twice the CPU time. Call this function before each event.
  void Adjust(Clock::time_point now, int64_t calls, bool is_behind);

  /// Returns the number of pollers to run if `active` of `most` have used the
  /// CPU time of `load` threads.
  static int Next(int active, int most, double load, bool is_behind);

  /// Ends Park(), and keeps the number of pollers that run.
  void Close();

 private:
  // Returns the CPU time that the first `pollers` pollers have used.
  std::chrono::nanoseconds CpuTime(int pollers) const TOPK_REQUIRES(mutex_);

  const int most_;
  std::atomic<int> active_ = 1;
  std::atomic<Clock::time_point> adjusted_;  // modified with mutex_ locked
  Mutex mutex_;
  struct Poller {
    std::condition_variable_any wake;
    std::optional<clockid_t> clock;  // of its CPU time, once it has started
  };
  std::deque<Poller> pollers_ TOPK_GUARDED_BY(mutex_);
  // The CPU time of the pollers that run, at adjusted_.
  std::chrono::nanoseconds cpu_ TOPK_GUARDED_BY(mutex_){};
  // When all running pollers were last needed, or one was parked.
  Clock::time_point needed_ TOPK_GUARDED_BY(mutex_){};
  bool is_closed_ TOPK_GUARDED_BY(mutex_) = false;
};

}  // namespace topk
