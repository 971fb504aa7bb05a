#include "server/threads/event_loop.h"

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "server/threads/active_pollers.h"

namespace topk {
namespace {

TEST(ActivePollers, FollowTheLoad) {
  struct Row {
    int active;
    double load;
    bool is_behind;
    int next;
  };
  constexpr int kMost = 4;
  for (const Row& row :
       {Row{1, 0.0, false, 1}, Row{1, 0.5, false, 1}, Row{1, 0.9, false, 2},
        Row{1, 0.1, true, 2}, Row{2, 0.9, false, 2}, Row{2, 1.8, false, 3},
        Row{2, 0.5, false, 1}, Row{4, 0.0, false, 3}, Row{4, 4.0, false, 4},
        Row{4, 0.0, true, 4}}) {
    EXPECT_EQ(ActivePollers::Next(row.active, kMost, row.load, row.is_behind),
              row.next)
        << row.active << " " << row.load;
  }
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

TEST(ActivePollers, AreNoMoreThanTheCalls) {
  using Clock = ActivePollers::Clock;
  ActivePollers pollers(4);
  pollers.Register(0);
  // Works for `longest`, or until the second poller runs or is parked.
  const auto work = [&pollers](int64_t calls, bool is_behind,
                               std::chrono::milliseconds longest) {
    const bool was_active = pollers.IsActive(1);
    const auto end = Clock::now() + longest;
    while (pollers.IsActive(1) == was_active && Clock::now() < end) {
      pollers.Adjust(Clock::now(), calls, is_behind);
    }
    return pollers.IsActive(1);
  };
  EXPECT_FALSE(work(1, false, 10 * ActivePollers::kPeriod));
  EXPECT_TRUE(work(1, true, std::chrono::seconds(20)));
  EXPECT_FALSE(work(1, false, std::chrono::seconds(20)));
}

// A loop of a server without calls, like that of the admin address.
TEST(EventLoop, EndsATurnWheneverItIsIdle) {
  grpc::ServerBuilder builder;
  std::unique_ptr<grpc::ServerCompletionQueue> queue =
      builder.AddCompletionQueue();
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  ASSERT_NE(server, nullptr);
  EventLoop loop(std::move(queue), 1);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(loop.WaitForTurn(std::chrono::seconds(20))) << i;
  }
  server->Shutdown();
}

}  // namespace
}  // namespace topk
