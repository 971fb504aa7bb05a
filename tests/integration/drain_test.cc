// A draining server from the view of its clients.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "tests/integration/topkd.h"
#include "tests/support/test_server.h"

namespace topk::testing {
namespace {

using Stream =
    grpc::ClientReaderWriter<v1::TopKRequestChunk, v1::TopKResponseChunk>;

const v1::TopKRequest& SmallRequest() {
  static const v1::TopKRequest request = OnnxRequest({1, 2, 3}, 1);
  return request;
}

void WriteHeader(Stream& stream) {
  v1::TopKRequestChunk chunk;
  *chunk.mutable_header() = SmallRequest();
  chunk.mutable_header()->mutable_tensor()->clear_source();
  ASSERT_TRUE(stream.Write(chunk));
}

// Returns a socket that is connected to an IPv4 address, or -1.
int ConnectTo(const std::string& target) {
  const size_t colon = target.rfind(':');
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port =
      htons(static_cast<uint16_t>(std::stoi(target.substr(colon + 1))));
  inet_pton(AF_INET, target.substr(0, colon).c_str(), &address.sin_addr);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address),
              sizeof(address)) == 0) {
    return fd;
  }
  close(fd);
  return -1;
}

bool Connects(const std::string& target) {
  const int fd = ConnectTo(target);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

// A call whose handler waits for the client; on a stream of many the first
// answer says that it runs.
TEST(Drain, FinishesCallsAndRejectsNewOnes) {
  TestServer server;
  const auto stub = server.Stub();
  grpc::ClientContext context;
  const auto many = stub->ComputeTopKMany(&context);
  v1::TopKResult result;
  ASSERT_TRUE(many->Write(SmallRequest()));
  ASSERT_TRUE(many->Read(&result));

  std::thread drain(
      [&] { server.server().Drain({}, std::chrono::minutes(5)); });
  EXPECT_TRUE(Eventually([&] {
    grpc::ClientContext late;
    v1::TopKResponse response;
    const grpc::Status status =
        server.Stub()->ComputeTopK(&late, SmallRequest(), &response);
    // CANCELLED is gRPC's word for a call that crosses the start of the drain
    // (its issue 41785); it must not last.
    EXPECT_TRUE(status.ok() ||
                status.error_code() == grpc::StatusCode::CANCELLED ||
                status.error_code() == grpc::StatusCode::UNAVAILABLE)
        << status.error_message();
    return status.error_code() == grpc::StatusCode::UNAVAILABLE;
  }));
  ASSERT_TRUE(many->Write(SmallRequest()));
  EXPECT_TRUE(many->Read(&result));
  EXPECT_TRUE(result.has_response());
  many->WritesDone();
  EXPECT_TRUE(many->Finish().ok());
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
      grpc::ClientContext context;
      v1::TopKResponse response;
      const grpc::Status status =
          stub->ComputeTopK(&context, SmallRequest(), &response);
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
  const auto stub = server.Stub();
  grpc::ClientContext context;
  const auto many = stub->ComputeTopKMany(&context);
  v1::TopKResult result;
  ASSERT_TRUE(many->Write(SmallRequest()));
  ASSERT_TRUE(many->Read(&result));
  const auto start = std::chrono::steady_clock::now();
  server.server().Drain({}, std::chrono::milliseconds(200));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  EXPECT_FALSE(many->Read(&result));
  EXPECT_EQ(many->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST(Drain, IgnoresIdleConnections) {
  TestServer server;
  const int fd = ConnectTo(server.target());
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
  grpc::ClientContext context;
  const auto stub = server.Stub();
  const auto many = stub->ComputeTopKMany(&context);
  v1::TopKResult result;
  ASSERT_TRUE(many->Write(SmallRequest()));
  ASSERT_TRUE(many->Read(&result));
  std::thread drain(
      [&] { server.server().Drain({}, std::chrono::minutes(5)); });
  EXPECT_TRUE(Eventually([&] { return !Connects(config.listen[0]); }));
  for (const std::string& other :
       {config.health_listen, config.metrics_listen, config.admin_listen}) {
    EXPECT_TRUE(Connects(other)) << other;
  }
  many->WritesDone();
  EXPECT_TRUE(many->Finish().ok());
  drain.join();
}

TEST(Drain, IsNotNeededBeforeDestruction) {
  auto server = std::make_unique<TestServer>();
  const auto stub = server->Stub();
  grpc::ClientContext context;
  const auto stream = stub->StreamTopK(&context);
  WriteHeader(*stream);
  server.reset();
  EXPECT_FALSE(stream->Finish().ok());
}

}  // namespace
}  // namespace topk::testing
