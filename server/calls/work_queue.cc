#include "server/calls/work_queue.h"

#include <thread>

#include "core/base/text.h"

namespace topk {

WorkQueue::WorkQueue(int threads)
    : threads_(threads),
      all_workers_(tbb::global_control::max_allowed_parallelism,
                   static_cast<size_t>(threads) + 1),
      workers_(threads, /*reserved_for_masters=*/0) {}

WorkQueue::~WorkQueue() {
  while (jobs_ > 0) std::this_thread::yield();
}

std::chrono::nanoseconds WorkQueue::Wait() const {
  return std::chrono::nanoseconds(static_cast<int64_t>(
      static_cast<double>(waiting_) * nanoseconds_per_byte_ / threads_));
}

Status WorkQueue::CheckDeadline(
    int64_t bytes, std::chrono::system_clock::time_point deadline) const {
  if (bytes <= kSmall) return {};
  using std::chrono::milliseconds;
  const auto wait = std::chrono::duration_cast<milliseconds>(Wait());
  if (wait.count() == 0) return {};
  const auto left = std::chrono::duration_cast<milliseconds>(
      deadline - std::chrono::system_clock::now());
  if (wait <= left) return {};
  return ResourceExhausted(
      "DEADLINE_TOO_SHORT", "server",
      Cat("work of ", wait.count(), " ms waits, and the deadline is in ",
          left.count(), " ms"),
      wait);
}

void WorkQueue::Learn(int64_t bytes, std::chrono::nanoseconds took) {
  if (bytes == 0) return;
  // Two at once may lose one's: it is an estimate.
  const double last =
      static_cast<double>(took.count()) / static_cast<double>(bytes);
  const double known = nanoseconds_per_byte_;
  nanoseconds_per_byte_ = known == 0 ? last : 0.9 * known + 0.1 * last;
}

}  // namespace topk
