// Work that takes longer than a call waits its turn, and nobody waits in vain.
#include "server/calls/work_queue.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <thread>

namespace topk {
namespace {

using std::chrono::milliseconds;
using std::chrono::system_clock;

constexpr int64_t kCost = 10'000'000;  // 10 ms, says the cost

// One thread that works on a job which ends with this, and has another one
// waiting, after it has worked off costs at half the expected speed.
class Busy {
 public:
  Busy() {
    queue_.Enqueue(kCost, [](WorkQueue::Job&) {
      std::this_thread::sleep_for(milliseconds(20));
      return true;
    });
    while (queue_.jobs() > 0) std::this_thread::yield();
    queue_.Enqueue(kCost, [this](WorkQueue::Job& job) {
      job.Revise(3 * kCost);
      begun_.set_value();
      end_.get_future().wait();
      return false;  // teaches nothing
    });
    begun_.get_future().wait();
    queue_.Enqueue(kCost, [](WorkQueue::Job&) { return true; });
  }
  ~Busy() { end_.set_value(); }

  WorkQueue& queue() { return queue_; }

 private:
  std::promise<void> begun_;
  std::promise<void> end_;
  WorkQueue queue_{1};
};

TEST(WorkQueueTest, SmallWorkHasLittleCostAndLittleOutput) {
  constexpr int64_t kTime = WorkQueue::kSmallNanoseconds;
  constexpr int64_t kBytes = WorkQueue::kSmallBytes;
  EXPECT_TRUE(WorkQueue::IsSmall(kTime, kBytes));
  EXPECT_FALSE(WorkQueue::IsSmall(kTime + 1, kBytes));
  EXPECT_FALSE(WorkQueue::IsSmall(kTime, kBytes + 1));
}

TEST(WorkQueueTest, EstimatesNoWaitWhenIdle) {
  WorkQueue queue(1);
  EXPECT_EQ(queue.Wait().count(), 0);
  EXPECT_TRUE(queue.CheckDeadline(system_clock::now()).ok());
}

TEST(WorkQueueTest, EstimatesWaitsFromTheSpeedOfTheLastJobs) {
  Busy busy;
  // 40 ms of cost at half speed or less.
  EXPECT_GE(busy.queue().Wait(), milliseconds(80));
}

TEST(WorkQueueTest, RejectsWorkThatWouldStartAfterItsDeadline) {
  Busy busy;
  const Status status =
      busy.queue().CheckDeadline(system_clock::now() + milliseconds(50));
  EXPECT_EQ(status.code, Code::kResourceExhausted);
  EXPECT_EQ(status.reason, "DEADLINE_TOO_SHORT");
  EXPECT_GE(status.retry_after, milliseconds(80));
}

TEST(WorkQueueTest, AcceptsWorkBeforeItsDeadline) {
  Busy busy;
  const auto late = system_clock::now() + std::chrono::hours(1);
  EXPECT_TRUE(busy.queue().CheckDeadline(late).ok());
}

TEST(WorkQueueTest, IgnoresWorkWithoutACost) {
  WorkQueue queue(1);
  for (int i = 0; i < 1000; ++i) {
    queue.Enqueue(i % 2, [](WorkQueue::Job&) { return true; });
  }
  while (queue.jobs() > 0) std::this_thread::yield();
  std::promise<void> end;
  const std::shared_future<void> ended = end.get_future().share();
  queue.Enqueue(kCost, [ended](WorkQueue::Job&) {
    ended.wait();
    return false;
  });
  EXPECT_EQ(queue.Wait(), std::chrono::nanoseconds(kCost));
  end.set_value();
}

TEST(WorkQueueTest, SumsTheHugestCosts) {
  WorkQueue queue(1);
  std::promise<void> end;
  std::shared_future<void> ended = end.get_future().share();
  for (int i = 0; i < 100; ++i) {
    queue.Enqueue(Size::kMax, [ended](WorkQueue::Job& job) {
      job.Revise(Size::kMax);
      ended.wait();
      return false;
    });
    EXPECT_GE(queue.Wait().count(), 0);
  }
  EXPECT_GT(queue.Wait(), std::chrono::hours(1));
  end.set_value();
  while (queue.jobs() > 0) std::this_thread::yield();
  EXPECT_EQ(queue.Wait().count(), 0);
}

}  // namespace
}  // namespace topk
