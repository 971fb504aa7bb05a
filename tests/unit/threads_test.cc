// Clients take turns, and no client waits for another client's long work. More
// pollers run while others are busy.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <future>
#include <mutex>
#include <string>
#include <thread>

#include "server/calls/open_calls.h"
#include "server/threads/active_pollers.h"
#include "server/threads/work_queue.h"

namespace topk {
namespace {

using std::chrono::milliseconds;
using std::chrono::system_clock;

constexpr int64_t kCost = 10'000'000;  // 10 ms
constexpr const char* kClient = "client";
constexpr std::chrono::hours kNever{1};

// A job that runs until End().
class Blocker {
 public:
  Blocker(WorkQueue& queue, const std::string& client, int64_t cost = kCost) {
    queue.Enqueue(client, cost, [this, end = end_.get_future().share()] {
      begun_.set_value();
      end.wait();
      return false;
    });
    begun_.get_future().wait();
  }

  void End() { end_.set_value(); }

 private:
  std::promise<void> begun_;
  std::promise<void> end_;
};

TEST(WorkQueueTest, RejectsOnlyWorkThatWouldStartAfterItsDeadline) {
  WorkQueue queue(1);
  // The queue works at half the expected speed or less.
  queue.Enqueue(kClient, kCost, [] {
    std::this_thread::sleep_for(milliseconds(20));
    return true;
  });
  while (queue.jobs() > 0) std::this_thread::yield();
  Blocker blocker(queue, kClient);
  queue.Enqueue(kClient, kCost, [] { return true; });
  EXPECT_GE(queue.Wait(kClient), milliseconds(40));
  const Status status =
      queue.CheckDeadline(kClient, system_clock::now() + milliseconds(30));
  EXPECT_EQ(status.code, Code::kResourceExhausted);
  EXPECT_EQ(status.reason, "DEADLINE_TOO_SHORT");
  EXPECT_GE(status.retry_after, milliseconds(40));
  const auto late = system_clock::now() + std::chrono::hours(1);
  EXPECT_TRUE(queue.CheckDeadline(kClient, late).ok());
  EXPECT_EQ(queue.Wait("other").count(), 0);
  EXPECT_TRUE(queue.CheckDeadline("other", system_clock::now()).ok());
  blocker.End();
}

TEST(WorkQueueTest, ExpectsNoMoreWorkOfOthersThanTheyHave) {
  WorkQueue queue(1, kNever);
  Blocker heavy(queue, "heavy", 100 * kCost);
  for (int i = 0; i < 100; ++i) {
    queue.Enqueue("light" + std::to_string(i), kCost / 100,
                  [] { return true; });
  }
  queue.Enqueue(kClient, kCost, [] { return true; });
  // The client waits for its own work, the same amount of the heavy client's
  // work, and the work of all light clients.
  EXPECT_EQ(queue.Wait(kClient).count(), 3 * kCost);
  heavy.End();
}

TEST(WorkQueueTest, LongWorkOfManyClientsDoesNotDelayMuchShorterWork) {
  constexpr std::chrono::nanoseconds kSlice = milliseconds(20);
  constexpr int64_t kShort = WorkQueue::kLongSlices * kSlice.count();
  constexpr int64_t kLong = kShort + 1;
  for (const int64_t cost : {int64_t{1000}, kShort}) {
    std::promise<void> end;
    std::promise<void> done;
    WorkQueue queue(1, kSlice);
    const auto ended = end.get_future().share();
    for (size_t i = 0; i < WorkQueue::kMaxSpares + 10; ++i) {
      queue.Enqueue("long" + std::to_string(i), kLong, [ended] {
        ended.wait();
        return false;
      });
    }
    queue.Enqueue(kClient, cost, [&done] {
      done.set_value();
      return true;
    });
    EXPECT_EQ(done.get_future().wait_for(std::chrono::seconds(20)),
              std::future_status::ready);
    end.set_value();
  }
}

TEST(WorkQueueTest, SpareThreadsServeOldAndNewClientsInTurn) {
  constexpr int kClients = 20;
  constexpr std::chrono::nanoseconds kSlice = milliseconds(1);
  constexpr int64_t kLong = 1000 * WorkQueue::kLongSlices * kSlice.count();
  std::promise<void> enqueued;
  const auto all_enqueued = enqueued.get_future().share();
  std::atomic<int> jobs_of_others = 0;
  std::promise<int> jobs_before;
  std::function<void(int)> keep_working;
  std::deque<Blocker> longs;
  WorkQueue queue(1, kSlice);
  // A worker and all but one of the spare threads for long work are busy. The
  // last one runs the work below, in the order in which it is taken.
  for (size_t i = 0; i < WorkQueue::kMaxLongSpares; ++i) {
    longs.emplace_back(queue, "long" + std::to_string(i), kLong);
  }
  for (int i = 0; i < 50; ++i) {
    std::promise<void> ran;
    queue.Enqueue(kClient, kLong, [&ran] {
      ran.set_value();
      return false;
    });
    ran.get_future().wait();
  }
  keep_working = [&](int i) {
    queue.Enqueue("new" + std::to_string(i), kLong, [&, i] {
      all_enqueued.wait();
      if (++jobs_of_others < 5 * kClients) keep_working(i);
      return true;
    });
  };
  for (int i = 0; i < kClients; ++i) keep_working(i);
  queue.Enqueue(kClient, kLong, [&] {
    jobs_before.set_value(jobs_of_others);
    return true;
  });
  enqueued.set_value();
  EXPECT_LE(jobs_before.get_future().get(), kClients);
  for (Blocker& blocker : longs) blocker.End();
}

TEST(WorkQueueTest, IgnoresWorkWithoutACost) {
  WorkQueue queue(1);
  for (int i = 0; i < 1000; ++i) {
    queue.Enqueue(kClient, i % 2, [] { return true; });
  }
  while (queue.jobs() > 0) std::this_thread::yield();
  Blocker blocker(queue, kClient);
  EXPECT_EQ(queue.Wait(kClient), std::chrono::nanoseconds(kCost));
  blocker.End();
}

// Records the order in which jobs began, with one letter per client.
class Order {
 public:
  explicit Order(std::chrono::nanoseconds slice) : queue_(1, slice) {}

  void Enqueue(char client, int64_t cost) {
    queue_.Enqueue(std::string(1, client), cost, [=, this] {
      const std::lock_guard lock(mutex_);
      order_ += client;
      return true;
    });
  }
  std::string order() {
    const std::lock_guard lock(mutex_);
    return order_;
  }
  void AwaitEnd() {
    while (queue_.jobs() > 0) std::this_thread::yield();
  }
  WorkQueue& queue() { return queue_; }

 private:
  std::mutex mutex_;
  std::string order_;
  WorkQueue queue_;
};

TEST(WorkQueueTest, ServesClientsInTurnByCost) {
  Order order(kNever);
  Blocker blocker(order.queue(), "blocker");
  for (int i = 0; i < 4; ++i) order.Enqueue('a', 2 * kCost);
  for (int i = 0; i < 6; ++i) order.Enqueue('b', kCost);
  order.Enqueue('c', kCost);
  blocker.End();
  order.AwaitEnd();
  EXPECT_EQ(order.order(), "abcbabbabba");
}

TEST(WorkQueueTest, WorkBeyondItsCostCountsForTheNextTurn) {
  Order order(kNever);
  Blocker blocker(order.queue(), "blocker");
  order.queue().Enqueue("a", 0, [] {
    std::this_thread::sleep_for(std::chrono::nanoseconds(3 * kCost / 2));
    return true;
  });
  order.Enqueue('a', kCost);
  for (int i = 0; i < 2; ++i) order.Enqueue('b', kCost);
  blocker.End();
  order.AwaitEnd();
  EXPECT_EQ(order.order(), "bba");
}

TEST(WorkQueueTest, ClientsThatReturnOrAreNewGainNoTurns) {
  Order order(kNever);
  Blocker blocker(order.queue(), "blocker");
  order.Enqueue('b', kCost);
  order.Enqueue('a', 4 * kCost);
  order.queue().Enqueue("b", kCost, [&order] {
    order.Enqueue('a', kCost);
    for (int i = 0; i < 2; ++i) order.Enqueue('c', kCost);
    return true;
  });
  for (int i = 0; i < 2; ++i) order.Enqueue('b', kCost);
  blocker.End();
  order.AwaitEnd();
  EXPECT_EQ(order.order(), "bacbcba");
}

TEST(WorkQueueTest, SpareThreadsWorkIfNoOtherThreadIsFree) {
  std::atomic<int> running = 0;
  std::atomic<int> done = 0;
  {
    WorkQueue queue(1, milliseconds(1));
    Blocker blocker(queue, "blocker");
    for (int i = 1; i <= 20; ++i) {
      queue.Enqueue(kClient, kCost, [&] {
        EXPECT_LE(++running, 2);  // on the worker, and the client's share
        std::this_thread::sleep_for(milliseconds(3));
        --running;
        ++done;
        return true;
      });
      while (i % 2 == 0 && done < i) std::this_thread::yield();
    }
    blocker.End();
  }
  EXPECT_EQ(done, 20);
}

TEST(ActivePollers, RunWhileOthersAreBusy) {
  using Clock = ActivePollers::Clock;
  ActivePollers pollers(2);
  pollers.Register(0);
  EXPECT_TRUE(pollers.IsActive(0));
  EXPECT_FALSE(pollers.IsActive(1));
  std::atomic<bool> ran = false;
  std::jthread second([&] { ran = pollers.Park(1); });
  const auto deadline = Clock::now() + std::chrono::seconds(20);
  while (!pollers.IsActive(1) && Clock::now() < deadline) {
    pollers.Adjust(Clock::now(), 2, false);  // keeps this thread busy
  }
  second.join();
  EXPECT_TRUE(ran);
  while (pollers.IsActive(1) && Clock::now() < deadline) {
    pollers.Adjust(Clock::now(), 2, false);
    std::this_thread::sleep_for(2 * ActivePollers::kPeriod);
  }
  EXPECT_FALSE(pollers.IsActive(1));
  second = std::jthread([&] { ran = pollers.Park(1); });
  pollers.Close();
  second.join();
  EXPECT_FALSE(ran);
}

TEST(OpenCalls, NoticeAnArrivalUntilTheDeadline) {
  using Clock = OpenCalls::Clock;
  constexpr std::chrono::minutes kLong{5};
  OpenCalls calls;
  calls.Enter();  // not an arrival during the wait
  EXPECT_FALSE(calls.ArrivesWithin(milliseconds(20), Clock::now() + kLong));
  const std::jthread caller([&calls](const std::stop_token& stop) {
    while (!stop.stop_requested()) calls.Enter();
  });
  EXPECT_TRUE(calls.ArrivesWithin(milliseconds(200), Clock::now() + kLong));
  EXPECT_FALSE(calls.ArrivesWithin(kLong, Clock::now() + milliseconds(20)));
}

}  // namespace
}  // namespace topk
