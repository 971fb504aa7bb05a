#include "server/threads/active_pollers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "server/calls/open_calls.h"

namespace topk {
namespace {

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
  using std::chrono::milliseconds;
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
