// Worker threads for work that is too long for a poller.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/base/checked.h"
#include "core/common/mutex.h"
#include "core/engine.h"
#include "topk/status.h"

namespace topk {

/// Runs work on worker threads. A job wakes at most one of them. Clients take
/// turns by the cost of their work (start-time fair queueing). The work of each
/// client starts in order. Estimates the wait of new work from the queued costs
/// and the recent processing speed. Thread-safe.
///
/// If no worker has started a job for `slice`, a spare thread runs the next job
/// of a client that uses less than its share of the threads. The operating
/// system then divides the cores among the threads.
class WorkQueue {
 public:
  /// The maximum cost of work that may run on a poller.
  static constexpr int64_t kSmallNanoseconds = kSerialNanoseconds;

  /// A spare thread starts a job if no worker has started a job for this long.
  static constexpr std::chrono::nanoseconds kSlice =
      std::chrono::milliseconds(20);
  /// The maximum number of spare threads, and of those that may run jobs of
  /// more than kLongSlices time slices at once. Short jobs therefore do not
  /// wait for long jobs.
  static constexpr size_t kMaxSpares = 16;
  static constexpr size_t kMaxLongSpares = 8;
  static constexpr int64_t kLongSlices = 10;

  /// Starts `threads` >= 1 workers.
  explicit WorkQueue(int threads, std::chrono::nanoseconds slice = kSlice);

  /// Blocks until all enqueued work has run.
  ~WorkQueue();

  /// Returns false if the duration of the work must not count towards the speed
  /// estimate, e.g. because the work was cancelled.
  using Work = std::function<bool()>;

  /// Enqueues `work` for a client. `nanoseconds` is the estimated CPU time. The
  /// client is charged for this time or, if longer, for the elapsed time. An
  /// exception from `work` terminates the process.
  void Enqueue(std::string_view client, Size nanoseconds, Work work);

  /// Estimates how long this client's work would wait if it were enqueued now.
  std::chrono::nanoseconds Wait(std::string_view client) const;

  /// Returns OK if work that this client enqueues now would start before the
  /// deadline. Otherwise returns RESOURCE_EXHAUSTED with the estimated wait.
  Status CheckDeadline(std::string_view client,
                       std::chrono::system_clock::time_point deadline) const;

  /// The number of jobs queued or running.
  int64_t jobs() const { return jobs_; }
  /// Returns whether new work would have to wait.
  bool IsBusy() const { return jobs_ >= threads_; }

 private:
  struct Client;
  using Clients = std::map<std::string, Client, std::less<>>;
  using Clock = std::chrono::steady_clock;
  using Turns = std::multimap<double, Clients::value_type*>;

  struct Job {
    Work work;
    int64_t cost;
    Clients::value_type* client = nullptr;
    Clock::time_point begun{};
    bool is_long_spare = false;  // a spare thread runs this long job
  };

  // A client that has work, or had work recently.
  struct Client {
    std::list<std::unique_ptr<Job>> queued;
    int64_t running = 0;
    int64_t pending = 0;  // nanoseconds, of queued and running work
    double served = 0;    // nanoseconds, on the scale of turn_
    // The client's entry in turns_ while jobs are queued, or in idle_clients_
    // while no job is queued or running. Otherwise invalid.
    Turns::iterator turn;
  };

  // Caps the cost of a job so that sums do not overflow.
  static int64_t Bounded(Size nanoseconds) {
    constexpr int64_t kHour = 3'600'000'000'000;
    return std::min(nanoseconds.value(), kHour);
  }

  // Shorter jobs are excluded from the speed estimate, because their time is
  // mostly call overhead.
  static constexpr int64_t kTimedNanoseconds = 100'000;

  struct Worker {
    std::condition_variable_any wake;
    bool is_idle = false;  // in idle_workers_
    std::thread thread;
  };

  void Run(std::unique_ptr<Job> job) noexcept;
  void RunJobs(Worker& self) noexcept;
  void RunOverdue() noexcept;
  void Charge(Client& client, double nanoseconds) TOPK_REQUIRES(mutex_);
  void ForgetIdleClients() TOPK_REQUIRES(mutex_);
  std::unique_ptr<Job> Take(Turns::iterator turn, Clock::time_point now)
      TOPK_REQUIRES(mutex_);
  std::unique_ptr<Job> TakeOverdue(Clock::time_point now) TOPK_REQUIRES(mutex_);
  std::unique_ptr<Job> AwaitOverdue() TOPK_REQUIRES(mutex_);
  void WakeSpare() TOPK_REQUIRES(mutex_);

  const int threads_;
  const std::chrono::nanoseconds slice_;
  std::atomic<int64_t> jobs_ = 0;  // modified with mutex_ locked
  mutable Mutex mutex_;
  Clients clients_ TOPK_GUARDED_BY(mutex_);
  Turns turns_ TOPK_GUARDED_BY(mutex_);  // with queued work, by next turn
  Turns idle_clients_ TOPK_GUARDED_BY(mutex_);  // without work
  double turn_ TOPK_GUARDED_BY(mutex_) = 0;     // largest key taken from turns_
  int64_t running_ TOPK_GUARDED_BY(mutex_) = 0;  // jobs
  std::deque<Worker> workers_ TOPK_GUARDED_BY(mutex_);
  // The worker that was idle last is woken first, because its caches are warm.
  std::vector<Worker*> idle_workers_ TOPK_GUARDED_BY(mutex_);
  // When a worker last started a job or was last woken, whichever is later.
  Clock::time_point progress_ TOPK_GUARDED_BY(mutex_){};
  // The ratio of estimated CPU time to elapsed time for recent work. If n jobs
  // run when a job ends, the job counts with 1/n of its elapsed time.
  double speed_ TOPK_GUARDED_BY(mutex_);
  double worked_ TOPK_GUARDED_BY(mutex_) = 0;
  double elapsed_ TOPK_GUARDED_BY(mutex_) = 0;
  // Spare threads. One watches for overdue work. The others run overdue work or
  // sleep.
  std::vector<std::thread> spares_ TOPK_GUARDED_BY(mutex_);
  size_t long_spares_ TOPK_GUARDED_BY(mutex_) = 0;  // run long jobs
  std::condition_variable_any watch_;
  std::condition_variable_any sleep_;
  size_t sleeping_ TOPK_GUARDED_BY(mutex_) = 0;
  bool watched_ TOPK_GUARDED_BY(mutex_) = false;
  // The watcher waits until it is woken. All queued jobs have a worker that was
  // woken for them.
  bool idle_ TOPK_GUARDED_BY(mutex_) = false;
  bool closing_ TOPK_GUARDED_BY(mutex_) = false;
  std::condition_variable_any done_;  // jobs_ is 0
};

}  // namespace topk
