// A draining server from the view of its clients.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "tests/integration/ask.h"
#include "tests/integration/topkd.h"
#include "tests/support/test_server.h"

namespace topk::testing {
namespace {

const v1::TopKRequest& SmallRequest() {
  static const v1::TopKRequest request = OnnxRequest({1, 2, 3}, 1);
  return request;
}

bool Connects(const std::string& target) {
  const int fd = OpenSocketTo(target);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

// A call whose handler waits for the client; on a stream of many the first
// answer says that it runs.
TEST(Drain, FinishesCallsAndRejectsNewOnes) {
  TestServer server;
  ManyCall many(server);
  many.Ask(SmallRequest());

  std::thread drain(
      [&] { server.server().Drain({}, std::chrono::minutes(5)); });
  EXPECT_TRUE(Eventually([&] {
    const grpc::Status status = Ask(server, SmallRequest()).status;
    // CANCELLED is gRPC's word for a call that crosses the start of the drain
    // (its issue 41785); it must not last.
    EXPECT_TRUE(status.ok() ||
                status.error_code() == grpc::StatusCode::CANCELLED ||
                status.error_code() == grpc::StatusCode::UNAVAILABLE)
        << status.error_message();
    return status.error_code() == grpc::StatusCode::UNAVAILABLE;
  }));
  EXPECT_TRUE(many.Ask(SmallRequest()).has_response());
  EXPECT_TRUE(many.Finish().ok());
  drain.join();
}

// Such a client has no policy of retries and no health checks; it has two
// servers. gRPC itself retries calls that it had assigned to a connection which
// then received a GOAWAY, because they are still in the client.
TEST(Drain, LosesNoCallOfABalancedClient) {
  TestServer staying;
  auto going = std::make_unique<TestServer>();
  grpc::ChannelArguments arguments;
  arguments.SetLoadBalancingPolicyName("round_robin");
  const auto channel = grpc::CreateCustomChannel(
      "ipv4:" + staying.target() + "," + going->target(),
      grpc::InsecureChannelCredentials(), arguments);
  std::atomic<bool> stop = false;
  std::atomic<int> calls = 0;
  const auto call_on = [&] {
    const auto stub = v1::TopKService::NewStub(channel);
    while (!stop) {
      const grpc::Status status = Ask(*stub, SmallRequest()).status;
      EXPECT_TRUE(status.ok()) << status.error_message();
      ++calls;
    }
  };
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) callers.emplace_back(call_on);
  EXPECT_TRUE(Eventually([&] { return calls > 100; }));
  going->server().Drain({}, std::chrono::minutes(5));
  going.reset();
  const int drained = calls;
  EXPECT_TRUE(Eventually([&] { return calls > drained + 100; }));
  stop = true;
  for (std::thread& caller : callers) caller.join();
}

TEST(Drain, EndsAtTheTimeout) {
  TestServer server;
  ManyCall many(server);
  many.Ask(SmallRequest());
  const auto start = std::chrono::steady_clock::now();
  server.server().Drain({}, std::chrono::milliseconds(200));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  v1::TopKResult result;
  EXPECT_FALSE(many->Read(&result));
  EXPECT_EQ(many->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST(Drain, IgnoresIdleConnections) {
  TestServer server;
  const int fd = OpenSocketTo(server.target());
  ASSERT_GE(fd, 0);
  // HTTP/2's greeting with empty settings; then the client sleeps.
  const std::string greeting =
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + std::string("\0\0\0\4\0\0\0\0\0", 9);
  ASSERT_EQ(write(fd, greeting.data(), greeting.size()),
            static_cast<ssize_t>(greeting.size()));
  char settings[9];
  ASSERT_EQ(read(fd, settings, sizeof(settings)), 9);
  const auto start = std::chrono::steady_clock::now();
  server.server().Drain({}, std::chrono::minutes(5));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  close(fd);
}

TEST(Drain, KeepsListenersOnTheSamePortOfOtherAddresses) {
  const std::string port =
      TakenPort(/*listens=*/false).address().substr(sizeof("127.0.0.1") - 1);
  ServerConfig config;
  config.listen = {"127.0.0.1" + port};
  config.health_listen = "127.0.0.2" + port;
  config.metrics_listen = "127.0.0.3" + port;
  config.admin_listen = "127.0.0.4" + port;
  TestServer server(config);
  ManyCall many(server);
  many.Ask(SmallRequest());
  std::thread drain(
      [&] { server.server().Drain({}, std::chrono::minutes(5)); });
  EXPECT_TRUE(Eventually([&] { return !Connects(config.listen[0]); }));
  for (const std::string& other :
       {config.health_listen, config.metrics_listen, config.admin_listen}) {
    EXPECT_TRUE(Connects(other)) << other;
  }
  EXPECT_TRUE(many.Finish().ok());
  drain.join();
}

TEST(Drain, IsNotNeededBeforeDestruction) {
  auto server = std::make_unique<TestServer>();
  const auto stub = server->Stub();
  grpc::ClientContext context;
  const auto stream = stub->StreamTopK(&context);
  ASSERT_TRUE(stream->Write(HeaderOf(SmallRequest())));
  server.reset();
  EXPECT_FALSE(stream->Finish().ok());
}

}  // namespace
}  // namespace topk::testing
