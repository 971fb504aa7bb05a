// ComputeTopK and GetCapabilities over a channel.
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/ask.h"
#include "tests/support/client_calls.h"
#include "tests/support/generators.h"
#include "tests/support/oracle.h"
#include "tests/support/test_server.h"
#include "topk/client.h"

namespace topk::testing {
namespace {

// Four threads share each client.
TEST(ComputeTopK, ConcurrentCallsHaveTheOraclesResults) {
  const TestServer server({.threads = 16, .pollers = 16});
  std::vector<v1::TopKRequest> requests;
  std::vector<std::string> expected;
  Random random(Seed(8));
  for (int i = 0; i < 100; ++i) {
    requests.push_back(RandomRequest(random));
    expected.push_back(Comparable(Oracle(requests.back())));
  }
  const Client clients[2] = {
      Client({.target = server.target(), .channel_arguments = OwnConnection()}),
      Client(
          {.target = server.target(), .channel_arguments = OwnConnection()})};
  std::vector<std::jthread> callers;
  for (size_t c = 0; c < 8; ++c) {
    callers.emplace_back([&, c] {
      const Client& client = clients[c % 2];
      const auto many = ComputeMany(client, requests);
      for (size_t i = 0; i < requests.size(); ++i) {
        const size_t r = (i + 13 * c) % requests.size();
        v1::TopKRequest header = requests[r];
        header.mutable_tensor()->clear_source();
        const auto data = std::as_bytes(std::span(requests[r].tensor().data()));
        const auto streamed = ComputeStream(client, header, data);
        for (const auto& result :
             {ComputeUnary(client, requests[r]), streamed, many[r]}) {
          ASSERT_TRUE(result.ok()) << result.status().message;
          EXPECT_EQ(Comparable(*result), expected[r]);
        }
      }
    });
  }
}

TEST(ComputeTopK, ServesUnixSocketsAndSeveralAddresses) {
  const std::string path = ::testing::TempDir() + "topk_compute_test.sock";
  {
    TestServer server({.listen = {"unix:" + path, "127.0.0.1:0", "127.0.0.1:0"},
                       .unix_socket_mode = 0640});
    EXPECT_EQ(server.target(), "unix:" + path);
    struct stat status {};
    ASSERT_EQ(stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0640u);
    const std::vector<std::string> addresses = server.server().addresses();
    ASSERT_EQ(addresses.size(), 3u);
    for (const std::string& address : addresses) {
      EXPECT_TRUE(Ask(address, OnnxRequest({1, 2}, 1)).status.ok()) << address;
    }
  }
  EXPECT_NE(access(path.c_str(), F_OK), 0) << "the socket outlives the server";
}

TEST(GetCapabilities, NamesTheLimitsInForce) {
  const TestServer server({.max_message_bytes = 12345,
                           .max_elements = 678,
                           .max_output_bytes = 90});
  grpc::ClientContext context;
  v1::Capabilities capabilities;
  ASSERT_TRUE(server.Stub()->GetCapabilities(&context, {}, &capabilities).ok());
  EXPECT_EQ(capabilities.limits().max_message_bytes(), 12345);
  EXPECT_EQ(capabilities.limits().max_elements(), 678);
  EXPECT_EQ(capabilities.limits().max_output_bytes(), 90);
  EXPECT_FALSE(capabilities.limits().shared_memory());
  EXPECT_EQ(capabilities.operators_size(), 9);
  EXPECT_FALSE(capabilities.build_version().empty());
}

}  // namespace
}  // namespace topk::testing
