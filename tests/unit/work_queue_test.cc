// What takes longer than a call waits its turn, and nobody waits in vain.
#include "server/calls/work_queue.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <thread>

namespace topk {
namespace {

using std::chrono::milliseconds;
using std::chrono::system_clock;

constexpr int64_t kLarge = int64_t{1} << 20;

// One thread that has learnt how long a large job takes, works on one that ends
// when it is told to, and has another one waiting.
class Busy {
 public:
  Busy() {
    RunAndWait([] { std::this_thread::sleep_for(milliseconds(20)); });
    queue_.Run(kLarge, [this] {
      begun_.set_value();
      end_.get_future().wait();
      return int64_t{0};  // teaches nothing
    });
    begun_.get_future().wait();
    queue_.Run(kLarge, [] { return kLarge; });
  }
  ~Busy() { end_.set_value(); }

  WorkQueue& queue() { return queue_; }

 private:
  template <class Work>
  void RunAndWait(Work work) {
    queue_.Run(kLarge, [work] {
      work();
      return kLarge;
    });
    while (queue_.jobs() > 0) std::this_thread::yield();
  }

  std::promise<void> begun_;
  std::promise<void> end_;
  WorkQueue queue_{1};
};

TEST(WorkQueueTest, SmallWorkIsDoneAtOnce) {
  WorkQueue queue(1);
  std::thread::id where;
  queue.Run(WorkQueue::kSmall, [&] {
    where = std::this_thread::get_id();
    return WorkQueue::kSmall;
  });
  EXPECT_EQ(where, std::this_thread::get_id());
}

TEST(WorkQueueTest, NothingWaitsWhereNothingIsDone) {
  WorkQueue queue(1);
  EXPECT_EQ(queue.Wait().count(), 0);
  EXPECT_TRUE(queue.CheckDeadline(kLarge, system_clock::now()).ok());
}

TEST(WorkQueueTest, WaitsAsLongAsTheLastJobsTook) {
  Busy busy;
  EXPECT_GE(busy.queue().Wait(), milliseconds(20));
}

TEST(WorkQueueTest, RefusesWhatWouldBeginAfterItsDeadline) {
  Busy busy;
  const Status status =
      busy.queue().CheckDeadline(kLarge, system_clock::now() + milliseconds(5));
  EXPECT_EQ(status.code, Code::kResourceExhausted);
  EXPECT_EQ(status.reason, "DEADLINE_TOO_SHORT");
  EXPECT_GE(status.retry_after, milliseconds(20));
}

TEST(WorkQueueTest, TakesWhatHasTime) {
  Busy busy;
  const auto late = system_clock::now() + std::chrono::hours(1);
  EXPECT_TRUE(busy.queue().CheckDeadline(kLarge, late).ok());
}

TEST(WorkQueueTest, SmallWorkDoesNotWait) {
  Busy busy;
  const auto now = system_clock::now();
  EXPECT_TRUE(busy.queue().CheckDeadline(WorkQueue::kSmall, now).ok());
}

}  // namespace
}  // namespace topk
