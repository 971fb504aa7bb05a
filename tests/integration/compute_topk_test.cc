// ComputeTopK, GetCapabilities and the details of errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "server/calls/status_map.h"
#include "tests/integration/ask.h"
#include "tests/integration/raw_call.h"
#include "tests/support/client_calls.h"
#include "tests/support/generators.h"
#include "tests/support/oracle.h"
#include "tests/support/test_server.h"
#include "topk/client.h"

namespace topk::testing {
namespace {

using ::testing::HasSubstr;

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
    callers.emplace_back([&, &client = clients[c % 2]] {
      const auto many = ComputeMany(client, requests);
      for (size_t i = 0; i < requests.size(); ++i) {
        for (const auto& result :
             {ComputeUnary(client, requests[i]), many[i]}) {
          ASSERT_TRUE(result.ok()) << result.status().message;
          EXPECT_EQ(Comparable(*result), expected[i]);
        }
      }
    });
  }
}

TEST(GetCapabilities, NamesTheLimitsInForce) {
  for (const bool shared_memory : {false, true}) {
    const TestServer server({.allow_shared_memory = shared_memory,
                             .max_message_bytes = 12345,
                             .max_elements = 678,
                             .max_output_bytes = 90});
    grpc::ClientContext context;
    v1::Capabilities capabilities;
    ASSERT_TRUE(
        server.Stub()->GetCapabilities(&context, {}, &capabilities).ok());
    EXPECT_EQ(capabilities.limits().max_message_bytes(), 12345);
    EXPECT_EQ(capabilities.limits().max_elements(), 678);
    EXPECT_EQ(capabilities.limits().max_output_bytes(), 90);
    EXPECT_EQ(capabilities.limits().shared_memory(), shared_memory);
    EXPECT_EQ(capabilities.operators_size(), 9);
    EXPECT_FALSE(capabilities.build_version().empty());
  }
}

TEST(StatusCode, InvalidArgumentNamesTheFieldAndTheValues) {
  const TestServer server;
  const grpc::Status status =
      Ask(server, OnnxRequest({1, 2, 3, 4, 5}, 7)).status;
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("7"));
  EXPECT_THAT(status.error_message(), HasSubstr("5"));
  const Details details = DetailsOf(status);
  EXPECT_EQ(details.status.code(), 3);
  EXPECT_EQ(details.status.message(), status.error_message());
  EXPECT_EQ(details.info.domain(), "topk.v1");
  EXPECT_EQ(details.info.reason(), "K_EXCEEDS_DIMENSION");
  EXPECT_EQ(details.info.metadata().at("field"), "onnx.k");
  ASSERT_EQ(details.bad_request.field_violations_size(), 1);
  EXPECT_EQ(details.bad_request.field_violations(0).field(), "onnx.k");
  EXPECT_EQ(details.bad_request.field_violations(0).description(),
            status.error_message());
}

TEST(StatusCode, ResourceExhaustedForLargeMessages) {
  const TestServer server({.max_message_bytes = 1024});
  const std::string large(1025, '\0');
  const std::string text = "Received message larger than max (1025 vs. 1024)";
  for (const char* method : {"ComputeTopK", "StreamTopK", "ComputeTopKMany"}) {
    const grpc::Status status =
        RawCall(server.Connect(), std::string("/topk.v1.TopKService/") + method,
                {large})
            .status;
    EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED)
        << method;
    EXPECT_THAT(status.error_message(), HasSubstr(text)) << method;
  }
  EXPECT_TRUE(Ask(server, OnnxRequest({1, 2}, 1)).status.ok());
}

TEST(StatusMap, KeepsTrailersSmallForAnyText) {
  const std::string huge(1 << 20, 'x');
  const grpc::Status status = ToGrpcStatus(InvalidArgument("R", huge, huge));
  EXPECT_EQ(status.error_message().size(), 1024u);
  EXPECT_LT(status.error_details().size() + status.error_message().size(),
            size_t{6000});
}

}  // namespace
}  // namespace topk::testing
