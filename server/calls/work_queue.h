// The threads that do what takes longer than a poller may spend.
#pragma once

#include <tbb/global_control.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <utility>

#include "core/base/checked.h"
#include "core/base/happens_before.h"
#include "core/base/status.h"
#include "server/calls/users.h"

namespace topk {

/// Runs work on oneTBB's threads, in turn, and estimates how long new work
/// waits: from the cost of what is queued and the speed at which costs were
/// worked off lately. Thread-safe.
class WorkQueue {
 public:
  /// Work of at most this cost and output may run on a poller. Costs are bounds
  /// that most work stays far below: it takes some ten microseconds.
  static constexpr int64_t kSmallNanoseconds = 150'000;
  static constexpr int64_t kSmallBytes = int64_t{256} << 10;
  static bool IsSmall(Size nanoseconds, Size output_bytes) {
    return nanoseconds <= kSmallNanoseconds && output_bytes <= kSmallBytes;
  }

  explicit WorkQueue(int threads);

  /// Waits for the work that was handed over.
  ~WorkQueue() { users_.Wait(); }

  /// One piece of work, while it runs.
  class Job {
   public:
    /// Its cost turned out to be another than it was queued with.
    void Revise(Size nanoseconds) {
      const int64_t cost = Bounded(nanoseconds);
      queue_.pending_ += cost - cost_;
      cost_ = cost;
    }

   private:
    friend class WorkQueue;
    Job(WorkQueue& queue, int64_t cost) : queue_(queue), cost_(cost) {}

    WorkQueue& queue_;
    int64_t cost_;
  };

  /// Has a worker call work(job). `nanoseconds` is the work's CPU time. The
  /// work returns whether it did what it cost: cancelled work teaches nothing.
  template <class Work>
  void Enqueue(Size nanoseconds, Work work) {
    const int64_t cost = Bounded(nanoseconds);
    const bool timed = cost >= kTimedNanoseconds;
    pending_ += cost;
    Begin(timed);
    // Destroyed in this order: the work first.
    struct Queued {
      Users::Token token;
      Work work;
    };
    workers_.enqueue(HandedOver(
        [this, cost, timed, queued = Queued{users_.Add(), std::move(work)}] {
          Job job(*this, cost);
          const bool done = queued.work(job);
          End(job.cost_, timed, done);
        }));
    WidenRace();
  }

  /// How long work that is queued now waits for a thread.
  std::chrono::nanoseconds Wait() const;

  /// OK if work that is queued now would begin before the deadline, else
  /// RESOURCE_EXHAUSTED with the time that the queue takes.
  Status CheckDeadline(std::chrono::system_clock::time_point deadline) const;

  /// How many pieces of work are queued or running.
  int64_t jobs() const { return jobs_; }

 private:
  using Clock = std::chrono::steady_clock;

  // Longer work counts as this long, so that sums of many do not overflow.
  static int64_t Bounded(Size nanoseconds) {
    constexpr int64_t kHour = 3'600'000'000'000;
    return std::min(nanoseconds.value(), kHour);
  }

  void Begin(bool timed);
  void End(int64_t cost, bool timed, bool done);

  // Less work takes longer to hand over than to do, so that its cost says
  // nothing about its time: it teaches nothing.
  static constexpr int64_t kTimedNanoseconds = 100'000;

  const int threads_;
  std::atomic<int64_t> pending_ = 0;  // nanoseconds, of queued and running work
  std::atomic<int64_t> jobs_ = 0;
  // The cost that is worked off in a nanosecond, as the last second of work
  // had it.
  std::atomic<double> speed_;
  std::mutex mutex_;   // of what follows
  int64_t timed_ = 0;  // jobs that may teach
  Clock::time_point since_{};
  double worked_ = 0;
  double elapsed_ = 0;
  /// oneTBB counts on the thread that calls it; ours polls.
  const tbb::global_control all_workers_;
  tbb::task_arena workers_;
  Users users_;
};

}  // namespace topk
