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
