#include "server/calls/open_calls.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

namespace topk {
namespace {

using Clock = OpenCalls::Clock;

TEST(OpenCalls, WaitsThePeriodForArrivals) {
  constexpr std::chrono::milliseconds kPeriod{20};
  OpenCalls calls;
  calls.Enter();  // not an arrival during the wait
  const Clock::time_point start = Clock::now();
  EXPECT_FALSE(calls.ArrivesWithin(kPeriod, start + std::chrono::minutes(5)));
  EXPECT_GE(Clock::now() - start, kPeriod);
  EXPECT_LT(Clock::now() - start, std::chrono::minutes(1));
}

TEST(OpenCalls, NoticesAnArrival) {
  OpenCalls calls;
  std::atomic<bool> stop = false;
  std::thread caller([&] {
    while (!stop) calls.Enter();
  });
  EXPECT_TRUE(calls.ArrivesWithin(std::chrono::milliseconds(200),
                                  Clock::now() + std::chrono::minutes(5)));
  // The wait ends at the deadline.
  EXPECT_FALSE(calls.ArrivesWithin(
      std::chrono::minutes(5), Clock::now() + std::chrono::milliseconds(20)));
  stop = true;
  caller.join();
}

struct Stream final : Observer {
  void OnChange() override { ++rechecks; }
  int rechecks = 0;
};

TEST(Observers, NotifiesThoseThatAreAlive) {
  Observers streams;
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
