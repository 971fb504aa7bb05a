// Decides how many pollers run.
#pragma once

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <vector>

#include "core/common/mutex.h"

namespace topk {

/// Lets as many pollers run as the load needs. The others are parked. If they
/// waited for events instead, gRPC would hand each event to a sleeping thread,
/// and waking a thread can take longer than serving a small call. Thread-safe.
class ActivePollers {
 public:
  using Clock = std::chrono::steady_clock;

  /// One more poller runs at most once per kPeriod, and one fewer only if no
  /// more were needed for kPatience.
  static constexpr std::chrono::milliseconds kPeriod{2};
  static constexpr std::chrono::milliseconds kPatience{100};

  /// Poller 0 always runs. REQUIRES: `pollers` >= 1.
  explicit ActivePollers(int pollers);

  /// Counts the CPU time of the calling thread, a poller. Call once.
  void Register();

  /// Returns whether a poller runs. Otherwise, it should call Park().
  bool IsActive(int poller) const {
    return poller < active_.load(std::memory_order_relaxed);
  }

  /// Blocks until the poller runs again. Returns false if Close() ended this.
  bool Park(int poller);

  /// Changes the number of pollers that run, according to their CPU time in the
  /// last period. If events have waited (`is_behind`), the CPU time says little,
  /// because other threads used the CPUs; then one more poller runs. Call this
  /// function before each event.
  void Adjust(Clock::time_point now, bool is_behind);

  /// Returns the number of pollers to run if `active` of `most` have used the
  /// CPU time of `load` threads.
  static int Next(int active, int most, double load, bool is_behind);

  /// Ends Park(), and keeps the number of pollers that run.
  void Close();

 private:
  std::chrono::nanoseconds CpuTime() const TOPK_REQUIRES(mutex_);

  const int pollers_;
  std::atomic<int> active_ = 1;
  std::atomic<Clock::time_point> adjusted_;  // modified with mutex_ locked
  Mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<clockid_t> clocks_ TOPK_GUARDED_BY(mutex_);  // of the pollers
  std::chrono::nanoseconds cpu_ TOPK_GUARDED_BY(mutex_){};  // at adjusted_
  // When all running pollers were last needed, or one was parked.
  Clock::time_point needed_ TOPK_GUARDED_BY(mutex_){};
  bool is_closed_ TOPK_GUARDED_BY(mutex_) = false;
};

}  // namespace topk
