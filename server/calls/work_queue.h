// The threads that do what takes longer than a poller may spend.
#pragma once

#include <tbb/global_control.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/checked.h"
#include "core/base/status.h"
#include "core/engine.h"
#include "server/calls/users.h"

namespace topk {

/// Runs work on oneTBB's threads. Clients take turns by the cost of their work
/// (start-time fair queueing); the work of one client starts in order.
/// Estimates how long new work waits, from these costs and the speed at which
/// recent costs were worked off. Thread-safe.
///
/// If no worker starts a job for `slice`, a spare thread runs the next job of a
/// client that uses less than its share of the threads, and the operating
/// system divides the cores.
class WorkQueue {
 public:
  /// Work of at most this cost and output may run on a poller.
  static constexpr int64_t kSmallNanoseconds = kSerialNanoseconds;
  static constexpr int64_t kSmallBytes = int64_t{256} << 10;
  static bool IsSmall(Size nanoseconds, Size output_bytes) {
    return nanoseconds <= kSmallNanoseconds && output_bytes <= kSmallBytes;
  }

  /// How long no worker may start a job before a spare thread does.
  static constexpr std::chrono::nanoseconds kSlice =
      std::chrono::milliseconds(20);
  /// The largest number of spare threads. Half of them only run work of at most
  /// kShortSlices slices.
  static constexpr size_t kMaxSpares = 16;
  static constexpr int64_t kShortSlices = 5;

  explicit WorkQueue(int threads, std::chrono::nanoseconds slice = kSlice);

  /// Blocks until all enqueued work has run.
  ~WorkQueue();

  /// Returns whether the work did what it cost: cancelled work is excluded from
  /// the speed estimate.
  using Work = std::function<bool()>;

  /// Has a worker call `work` for a client. `nanoseconds` is the CPU time of
  /// the work; if it takes longer, its time counts for the next turn of the
  /// client. An exception ends the process.
  void Enqueue(std::string_view client, Size nanoseconds, Work work);

  /// Returns how long work of this client that is queued now waits for its
  /// turn.
  std::chrono::nanoseconds Wait(std::string_view client) const;

  /// Returns OK if work of this client that is queued now would begin before
  /// the deadline, else RESOURCE_EXHAUSTED with the time that the queue takes.
  Status CheckDeadline(std::string_view client,
                       std::chrono::system_clock::time_point deadline) const;

  /// How many pieces of work are queued or running.
  int64_t jobs() const { return jobs_; }
  /// Whether new work would have to wait.
  bool IsBusy() const { return jobs_ >= threads_; }

 private:
  struct Client;
  using Clients = std::map<std::string, Client, std::less<>>;
  using Clock = std::chrono::steady_clock;
  using Turns = std::multimap<double, Clients::value_type*>;

  // One piece of work.
  struct Job {
    Work work;
    int64_t cost;
    Users::Token user;
    Clients::value_type* client = nullptr;
    double begun = 0;              // share_ when it began
    double begun_thread_time = 0;  // thread_time_ when it began
  };

  // A client that has work, or had work a moment ago.
  struct Client {
    std::list<std::unique_ptr<Job>> queued;
    int64_t running = 0;
    int64_t pending = 0;  // nanoseconds, of queued and running work
    double served = 0;    // nanoseconds, on the scale of turn_
    // In turns_ with queued work, in idle_clients_ without any work.
    Turns::iterator turn;
  };

  // Longer work counts as this long, so that sums of many do not overflow.
  static int64_t Bounded(Size nanoseconds) {
    constexpr int64_t kHour = 3'600'000'000'000;
    return std::min(nanoseconds.value(), kHour);
  }

  // Less work is excluded from the speed estimate, because its time is mostly
  // that of its call.
  static constexpr int64_t kTimedNanoseconds = 100'000;

  void Run(std::unique_ptr<Job> job) noexcept;
  void RunNext() noexcept;
  void RunOverdue() noexcept;
  // The caller holds mutex_ in the following.
  void Advance(Clock::time_point now);
  void Charge(Client& client, double nanoseconds);
  void ForgetIdleClients();
  std::unique_ptr<Job> Take(Turns::iterator turn, Clock::time_point now);
  std::unique_ptr<Job> TakeOverdue(Clock::time_point now);
  std::unique_ptr<Job> AwaitOverdue(std::unique_lock<std::mutex>& lock);
  void WakeSpare();

  const int threads_;
  const std::chrono::nanoseconds slice_;
  std::atomic<int64_t> jobs_ = 0;
  mutable std::mutex mutex_;  // of what follows
  Clients clients_;
  Turns turns_;         // of the clients with queued work
  Turns idle_clients_;  // those without work, by the turns that they would have
  double turn_ = 0;     // the key of the last one taken from turns_
  int64_t queued_ = 0;  // jobs
  int64_t running_ = 0;  // jobs
  int64_t handed_ = 0;   // calls of RunNext() that were enqueued, not begun
  // When RunNext() last began or, if no call was outstanding, was handed over.
  Clock::time_point progress_{};
  // Virtual clocks, which stand still without running jobs: the time of the
  // queue divided among the running jobs, and the time that each running job
  // had a thread.
  double share_ = 0;
  double thread_time_ = 0;
  Clock::time_point shared_until_{};
  // The cost worked off per nanosecond, over the last second of work.
  double speed_;
  double worked_ = 0;
  double elapsed_ = 0;
  // The spare threads. One of them watches for overdue work, the others run
  // such work or sleep.
  std::vector<std::thread> spares_;
  std::condition_variable watch_;
  std::condition_variable sleep_;
  size_t sleeping_ = 0;
  bool watched_ = false;
  bool idle_ = false;  // the watching one waits for work to be handed over
  bool closing_ = false;

  /// oneTBB counts on the thread that calls it; ours polls.
  const tbb::global_control all_workers_;
  tbb::task_arena workers_;
  Users users_;
};

}  // namespace topk
