// Clients take turns, and no client waits for another client's long work.
#include "server/threads/work_queue.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <future>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>

namespace topk {
namespace {

using std::chrono::milliseconds;
using std::chrono::system_clock;

constexpr int64_t kCost = 10'000'000;  // 10 ms
constexpr const char* kClient = "client";
constexpr std::chrono::hours kNever{1};

// A queue with one thread, which has worked at half the expected speed and now
// runs a job that ends when this object is destroyed. Another job is waiting.
class Busy {
 public:
  Busy() {
    queue_.Enqueue(kClient, kCost, [] {
      std::this_thread::sleep_for(milliseconds(20));
      return true;
    });
    while (queue_.jobs() > 0) std::this_thread::yield();
    queue_.Enqueue(kClient, 3 * kCost, [this] {
      begun_.set_value();
      end_.get_future().wait();
      return false;  // exclude this job from the speed estimate
    });
    begun_.get_future().wait();
    queue_.Enqueue(kClient, kCost, [] { return true; });
  }
  ~Busy() { end_.set_value(); }

  WorkQueue& queue() { return queue_; }

 private:
  std::promise<void> begun_;
  std::promise<void> end_;
  WorkQueue queue_{1};
};

TEST(WorkQueueTest, RejectsOnlyWorkThatWouldStartAfterItsDeadline) {
  Busy busy;
  // The jobs cost 40 ms, and the queue has half the speed or less.
  EXPECT_GE(busy.queue().Wait(kClient), milliseconds(80));
  const Status status = busy.queue().CheckDeadline(
      kClient, system_clock::now() + milliseconds(50));
  EXPECT_EQ(status.code, Code::kResourceExhausted);
  EXPECT_EQ(status.reason, "DEADLINE_TOO_SHORT");
  EXPECT_GE(status.retry_after, milliseconds(80));
  const auto late = system_clock::now() + std::chrono::hours(1);
  EXPECT_TRUE(busy.queue().CheckDeadline(kClient, late).ok());
  EXPECT_EQ(busy.queue().Wait("other").count(), 0);
  EXPECT_TRUE(busy.queue().CheckDeadline("other", system_clock::now()).ok());
}

TEST(WorkQueueTest, ExpectsNoMoreWorkOfOthersThanTheyHave) {
  std::promise<void> end;
  WorkQueue queue(1, kNever);
  queue.Enqueue("heavy", 100 * kCost, [&end] {
    end.get_future().wait();
    return false;
  });
  for (int i = 0; i < 100; ++i) {
    queue.Enqueue("light" + std::to_string(i), kCost / 100,
                  [] { return true; });
  }
  queue.Enqueue(kClient, kCost, [] { return true; });
  // The client waits for its own work, the same amount of the heavy client's
  // work, and the work of all light clients.
  EXPECT_EQ(queue.Wait(kClient).count(), 3 * kCost);
  end.set_value();
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
  std::promise<void> end;
  const auto ended = end.get_future().share();
  std::promise<void> enqueued;
  const auto all_enqueued = enqueued.get_future().share();
  std::atomic<int> jobs_of_others = 0;
  std::promise<int> jobs_before;
  std::function<void(int)> keep_working;
  WorkQueue queue(1, kSlice);
  // A worker and all but one of the spare threads for long work are busy. The
  // last one runs the work below, in the order in which it is taken.
  std::atomic<size_t> begun = 0;
  for (size_t i = 0; i < WorkQueue::kMaxLongSpares; ++i) {
    queue.Enqueue("long" + std::to_string(i), kLong, [ended, &begun] {
      ++begun;
      ended.wait();
      return false;
    });
  }
  while (begun < WorkQueue::kMaxLongSpares) std::this_thread::yield();
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
  end.set_value();
}

TEST(WorkQueueTest, IgnoresWorkWithoutACost) {
  WorkQueue queue(1);
  for (int i = 0; i < 1000; ++i) {
    queue.Enqueue(kClient, i % 2, [] { return true; });
  }
  while (queue.jobs() > 0) std::this_thread::yield();
  std::promise<void> end;
  const std::shared_future<void> ended = end.get_future().share();
  queue.Enqueue(kClient, kCost, [ended] {
    ended.wait();
    return false;
  });
  EXPECT_EQ(queue.Wait(kClient), std::chrono::nanoseconds(kCost));
  end.set_value();
}

// A job that runs until End().
class Blocker {
 public:
  Blocker(WorkQueue& queue, const char* client) {
    queue.Enqueue(client, kCost, [this] {
      begun_.set_value();
      end_.get_future().wait();
      return false;
    });
    begun_.get_future().wait();
  }

  void End() { end_.set_value(); }

 private:
  std::promise<void> begun_;
  std::promise<void> end_;
};

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

TEST(WorkQueueTest, LongWorkDoesNotDelayOtherClients) {
  Order order(milliseconds(1));
  Blocker of_a(order.queue(), "a");
  Blocker of_b(order.queue(), "b");
  for (int i = 0; i < 3; ++i) order.Enqueue('c', kCost);
  while (order.order().size() < 3) std::this_thread::yield();
  of_b.End();
  order.Enqueue('b', kCost);
  while (order.order().size() < 4) std::this_thread::yield();
  EXPECT_EQ(order.order(), "cccb");
  of_a.End();
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

TEST(WorkQueueTest, AJobWakesOneThread) {
  const auto switches = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_nvcsw;  // how often threads of this process have slept
  };
  constexpr int kJobs = 200;
  WorkQueue queue(16);
  const auto before = switches();
  for (int i = 0; i < kJobs; ++i) {
    std::promise<void> ran;
    queue.Enqueue(kClient, 0, [&ran] {
      ran.set_value();
      return true;
    });
    ran.get_future().wait();
    while (queue.jobs() > 0) std::this_thread::yield();
  }
  // This thread and a worker sleep for each job, and rarely for a mutex.
  EXPECT_LT(switches() - before, 5 * kJobs);
}

TEST(WorkQueueDeathTest, ExceptionsEndTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        WorkQueue queue(1);
        queue.Enqueue(kClient, kCost, []() -> bool {
          throw std::runtime_error("thrown by work");
        });
      },
      "thrown by work");
}

}  // namespace
}  // namespace topk
