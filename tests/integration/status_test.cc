// The status codes that clients receive, with their details.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/calls/status_map.h"
#include "tests/integration/ask.h"
#include "tests/integration/raw_call.h"
#include "tests/integration/rpc_status.h"
#include "tests/support/test_server.h"

namespace topk::testing {
namespace {

using ::testing::HasSubstr;

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
