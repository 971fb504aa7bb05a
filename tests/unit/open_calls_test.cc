#include "server/calls/open_calls.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>

namespace topk {
namespace {

using Clock = OpenCalls::Clock;

TEST(OpenCalls, NoneArrivesIsTrueOnceThePeriodHasPassed) {
  constexpr std::chrono::milliseconds kPeriod{20};
  OpenCalls calls;
  calls.Enter();  // not an arrival during the wait
  const Clock::time_point start = Clock::now();
  calls.WaitUntilNoneArrives(kPeriod, start + std::chrono::minutes(5));
  EXPECT_GE(Clock::now() - start, kPeriod);
  EXPECT_LT(Clock::now() - start, std::chrono::minutes(1));
}

TEST(OpenCalls, AnArrivalExtendsTheWait) {
  constexpr std::chrono::milliseconds kPeriod{200};
  OpenCalls calls;
  const Clock::time_point start = Clock::now();
  Clock::time_point end;
  std::thread waiter([&] {
    calls.WaitUntilNoneArrives(kPeriod, start + std::chrono::minutes(5));
    end = Clock::now();
  });
  const Clock::time_point before = Clock::now();
  calls.Enter();
  const bool in_time = Clock::now() - start < kPeriod;
  waiter.join();
  if (in_time) {
    EXPECT_GE(end - before, kPeriod);
  }
}

TEST(OpenCalls, TheWaitForArrivalsEndsAtTheDeadline) {
  constexpr std::chrono::milliseconds kBound{20};
  OpenCalls calls;
  const Clock::time_point start = Clock::now();
  calls.WaitUntilNoneArrives(std::chrono::minutes(5), start + kBound);
  EXPECT_GE(Clock::now() - start, kBound);
  EXPECT_LT(Clock::now() - start, std::chrono::minutes(1));
}

struct Stream final : Listener {
  void OnChange() override { ++rechecks; }
  int rechecks = 0;
};

TEST(Listeners, NotifiesThoseThatAreAlive) {
  Listeners streams;
  const auto open = std::make_shared<Stream>();
  const auto ended = std::make_shared<Stream>();
  auto destroyed = std::make_shared<Stream>();
  streams.Add(open);
  streams.Add(destroyed);
  streams.Remove(streams.Add(ended));
  destroyed.reset();
  streams.Notify();
  EXPECT_EQ(open->rechecks, 1);
  EXPECT_EQ(ended->rechecks, 0);
}

}  // namespace
}  // namespace topk
