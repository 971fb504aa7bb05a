#include "server/calls/work_queue.h"

#include "core/base/text.h"

namespace topk {

WorkQueue::WorkQueue(int threads)
    : threads_(threads),
      speed_(threads),
      all_workers_(tbb::global_control::max_allowed_parallelism,
                   static_cast<size_t>(threads) + 1),
      workers_(threads, /*reserved_for_masters=*/0) {}

void WorkQueue::Begin(bool timed) {
  ++jobs_;
  if (!timed) return;
  // Time counts from the first job on.
  const std::lock_guard lock(mutex_);
  if (timed_++ == 0) since_ = Clock::now();
}

void WorkQueue::End(int64_t cost, bool timed, bool done) {
  pending_ -= cost;
  if (timed) {
    const std::lock_guard lock(mutex_);
    const Clock::time_point now = Clock::now();
    if (done) {
      constexpr double kWindow = 1e9;
      worked_ += static_cast<double>(cost);
      elapsed_ += static_cast<double>(
          std::max<int64_t>(std::chrono::nanoseconds(now - since_).count(), 1));
      speed_ = worked_ / elapsed_;
      if (elapsed_ > kWindow) {
        worked_ /= 2;
        elapsed_ /= 2;
      }
    }
    since_ = now;
    --timed_;
  }
  --jobs_;
}

std::chrono::nanoseconds WorkQueue::Wait() const {
  // One thread may be free where there are fewer jobs than threads.
  if (jobs_ < threads_) return {};
  const double wait = static_cast<double>(pending_) / speed_;
  return std::chrono::nanoseconds(Size::Of(std::min(wait, 1e15)).value());
}

Status WorkQueue::CheckDeadline(
    std::chrono::system_clock::time_point deadline) const {
  using std::chrono::milliseconds;
  const auto wait = std::chrono::duration_cast<milliseconds>(Wait());
  if (wait.count() == 0) return {};
  const auto left = std::chrono::duration_cast<milliseconds>(
      deadline - std::chrono::system_clock::now());
  if (wait <= left) return {};
  return ResourceExhausted(
      "DEADLINE_TOO_SHORT", "server",
      StrCat("queued work takes ", wait.count(), " ms, longer than the ",
             left.count(), " ms until the call's deadline"),
      wait);
}

}  // namespace topk
