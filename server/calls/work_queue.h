// The threads that do what takes longer than a call.
#pragma once

#include <tbb/global_control.h>
#include <tbb/task_arena.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <utility>

#include "core/base/happens_before.h"
#include "core/base/status.h"

namespace topk {

/// Does small work where it is, so that it is not handed over, and the rest on
/// oneTBB's threads, in turn. Thread-safe.
class WorkQueue {
 public:
  /// Work on so many bytes and less is small; a full sort of them takes 0.3 ms,
  /// not much more than a call.
  static constexpr int64_t kSmall = int64_t{128} << 10;

  explicit WorkQueue(int threads);

  /// Waits for what has been handed over.
  ~WorkQueue();

  /// Does work on a tensor of so many bytes; the work returns on how many it
  /// was in the end.
  template <class Work>
  void Run(int64_t bytes, Work work) {
    if (bytes <= kSmall) {
      work();
      return;
    }
    ++jobs_;
    waiting_ += bytes;
    workers_.enqueue(HandedOver([this, bytes, work = std::move(work)] {
      const auto start = std::chrono::steady_clock::now();
      waiting_ -= bytes;
      const int64_t done = work();
      Learn(done, std::chrono::steady_clock::now() - start);
      --jobs_;  // the last that is touched here
    }));
  }

  /// How long work that comes now would wait for a thread, as the last jobs
  /// have it.
  std::chrono::nanoseconds Wait() const;

  /// OK if work on so many bytes that came now would be begun before the
  /// deadline, else RESOURCE_EXHAUSTED with the time that the queue takes.
  Status CheckDeadline(int64_t bytes,
                       std::chrono::system_clock::time_point deadline) const;

  /// How many jobs wait or are under way.
  int64_t jobs() const { return jobs_; }

 private:
  void Learn(int64_t bytes, std::chrono::nanoseconds took);

  const int threads_;
  std::atomic<int64_t> jobs_ = 0;
  std::atomic<int64_t> waiting_ = 0;  // bytes
  std::atomic<double> nanoseconds_per_byte_ = 0;
  /// oneTBB counts on the thread that calls it; ours polls.
  const tbb::global_control all_workers_;
  tbb::task_arena workers_;
};

}  // namespace topk
