#include "server/threads/event_loop.h"

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>

namespace topk {
namespace {

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
