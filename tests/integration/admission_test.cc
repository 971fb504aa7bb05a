// Rejections by an overloaded server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <list>
#include <nlohmann/json.hpp>

#include "tests/integration/ask.h"
#include "tests/support/client_calls.h"
#include "tests/support/requests.h"
#include "tests/support/test_server.h"
#include "topk/client.h"

namespace topk::testing {
namespace {

using ::testing::HasSubstr;

// Expects a rejection that tells the client to retry later.
void ExpectLater(const CallResult& asked, const std::string& reason,
                 const std::string& subject) {
  const grpc::Status& status = asked.status;
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED)
      << status.error_message();
  const Details details = DetailsOf(status);
  EXPECT_EQ(details.info.reason(), reason);
  ASSERT_EQ(details.quota.violations_size(), 1);
  EXPECT_THAT(details.quota.violations(0).subject(), HasSubstr(subject));
  EXPECT_EQ(details.quota.violations(0).description(), status.error_message());
  const auto& delay = details.retry.retry_delay();
  const int64_t milliseconds = delay.seconds() * 1000 + delay.nanos() / 1000000;
  EXPECT_GE(milliseconds, 16);
  EXPECT_EQ(asked.pushback, std::to_string(milliseconds));
}

TEST(Admission, RejectsCallsAboveTheLimit) {
  TestServer server({.metrics_listen = "127.0.0.1:0",
                     .max_inflight_calls = 2,
                     .max_client_inflight_calls = 3});
  const v1::TopKRequest request = OnnxRequest({1, 2, 3}, 1);
  ManyCall calls[] = {ManyCall(server), ManyCall(server)};
  for (ManyCall& call : calls) call.Ask(request);
  EXPECT_EQ(Value(server, "topk_inflight_calls{}"), 2);
  ExpectLater(Ask(server, request), "TOO_MANY_CALLS", "server");
  EXPECT_EQ(Value(server, "topk_rejected_total{reason=\"inflight_calls\"}"), 1);
  const auto line = nlohmann::json::parse(server.Log());
  EXPECT_EQ(line["reason"], "TOO_MANY_CALLS");
  EXPECT_LT(line["total_us"], 20000000) << "since the call's arrival";
  for (ManyCall& call : calls) EXPECT_TRUE(call.Finish().ok());
  EXPECT_TRUE(Eventually([&] {
    return Value(server, "topk_inflight_calls{}") == 0 &&
           Value(server, "topk_inflight_bytes{}") == 0;
  }));
  EXPECT_TRUE(Ask(server, request).status.ok());
}

TEST(Admission, OneClientCannotUseTheWholeLimit) {
  const TestServer server(
      {.max_inflight_calls = 3, .max_client_inflight_calls = 1});
  ManyCall call(server);
  call.Ask(OnnxRequest({1, 2, 3}, 1));
  ExpectLater(Ask(server, OnnxRequest({1, 2, 3}, 1)),
              "TOO_MANY_CALLS_OF_CLIENT", "client:addr:127.0.0.1");
  EXPECT_TRUE(call.Finish().ok());
}

TEST(Admission, ReportsRequestsThatNeverFit) {
  const TestServer server(
      {.max_selected_elements = 2, .max_inflight_bytes = 1 << 20});
  v1::TopKRequest large = OnnxRequest(std::vector<float>(1 << 20, 1.0F), 1);
  large.set_request_id("the-large-one");
  const CallResult asked = Ask(server, large);
  EXPECT_EQ(asked.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(asked.reason(), "REQUEST_TOO_LARGE");
  EXPECT_FALSE(DetailsOf(asked.status).retry.has_retry_delay());
  EXPECT_EQ(asked.pushback, "-1");
  EXPECT_EQ(Ask(server, OnnxRequest({1, 2, 3}, 3)).reason(),
            "TOO_MANY_SELECTED");
  ManyCall stream(server);
  const v1::TopKResult result = stream.Ask(large);
  EXPECT_EQ(result.error().code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(result.request_id(), "the-large-one");
  EXPECT_TRUE(server.HasLogged("the-large-one")) << server.Log();
  EXPECT_TRUE(stream.Ask(OnnxRequest({1, 2, 3}, 2)).has_response());
  EXPECT_TRUE(stream.Finish().ok());
}

TEST(Admission, RejectsCallsThatWouldWaitBeyondTheirDeadline) {
  const TestServer server({.threads = 1});
  v1::TopKRequest slow =
      DirectMLRequest(v1::DATA_TYPE_U8, {4'000'000, 1000}, 1, 1);
  for (const int stride : {0, 1}) slow.mutable_tensor()->add_strides(stride);
  slow.mutable_tensor()->set_data(std::string(1000, '\0'));
  ManyCall call(server);
  ASSERT_TRUE(call->Write(slow));  // takes seconds
  const Client client({.target = server.target(),
                       .timeout = std::chrono::milliseconds(200),
                       .retry = std::nullopt});
  const v1::TopKRequest sort =
      OnnxRequest(std::vector<float>(1 << 18), 1 << 18);
  EXPECT_TRUE(Eventually([&] {
    const auto answer = ComputeUnary(client, sort);
    return !answer.ok() && answer.status().reason == "DEADLINE_TOO_SHORT";
  }));
  call.context().TryCancel();
  (void)call.Finish();
}

// The memory of a tensor is charged only once some of its data has arrived.
TEST(Admission, AStreamIsChargedInProportionToWhatItSent) {
  constexpr int64_t kElements = int64_t{1} << 20;
  // The limit fits a few of these tensors.
  TestServer server(
      {.metrics_listen = "127.0.0.1:0", .max_inflight_bytes = 256 << 20});
  const auto header =
      HeaderOf(OnnxRequest(v1::DATA_TYPE_F32, {kElements}, kElements));
  v1::TopKRequestChunk byte;
  byte.set_data("x");
  constexpr size_t kStreams = 20;
  const auto channel = server.Connect();
  std::list<StreamCall> streams;
  for (size_t i = 0; i < kStreams; ++i) {
    StreamCall& stream = streams.emplace_back(channel);
    ASSERT_TRUE(stream->Write(header));
    ASSERT_TRUE(stream->Write(byte));
  }
  const auto charged = [&] { return Value(server, "topk_inflight_bytes{}"); };
  ASSERT_TRUE(Eventually([&] {
    return Value(server, "topk_inflight_calls{}") == kStreams &&
           charged() >= kStreams;
  }));
  EXPECT_LT(charged(), 1 << 20);
  // One stream can still send the rest of its tensor in one message.
  byte.set_data(std::string(4 * kElements - 1, '\0'));
  StreamCall& first = streams.front();
  ASSERT_TRUE(first->Write(byte));
  first->WritesDone();
  v1::TopKResponseChunk answer;
  ASSERT_TRUE(first->Read(&answer));
  EXPECT_EQ(answer.header().indices().shape(0), kElements);
  for (StreamCall& stream : streams) stream.context().TryCancel();
  for (StreamCall& stream : streams) (void)stream->Finish();
}

// The requests count, because the server has already received them.
TEST(Admission, RequestsThatDoNotFitCountAgainstTheRate) {
  ServerConfig config;
  config.max_inflight_bytes = 1 << 20;
  config.security.client_requests_per_second = 0.01;
  const TestServer server(config);
  const auto reason = [&](const v1::TopKRequest& request) {
    const CallResult asked = Ask(server, request);
    return asked.status.ok() ? "" : asked.reason();
  };
  EXPECT_EQ(reason(OnnxRequest(std::vector<float>(1 << 20, 1.0F), 1)),
            "REQUEST_TOO_LARGE");
  EXPECT_EQ(reason(OnnxRequest({1, 2, 3}, 1)), "RATE_LIMITED");
}

// The server throttles the stream to the rate, so any tensor can be sent.
TEST(Admission, DelaysAStreamAboveTheRate) {
  constexpr int64_t kRate = 4 << 20;
  ServerConfig config;
  config.security.client_bytes_per_second = kRate;
  const TestServer server(config);
  const Client client({.target = server.target(), .retry = std::nullopt});
  const std::vector<float> values(3 * kRate / sizeof(float), 1.0F);
  const v1::TopKRequest header =
      OnnxRequest(v1::DATA_TYPE_F32, {static_cast<int64_t>(values.size())}, 1);
  const auto start = std::chrono::steady_clock::now();
  const auto answer =
      ComputeStream(client, header, std::as_bytes(std::span(values)));
  EXPECT_TRUE(answer.ok()) << answer.status().message;
  // The burst of the first second and the last reads are not delayed.
  EXPECT_GE(std::chrono::steady_clock::now() - start,
            std::chrono::milliseconds(900));
}

}  // namespace
}  // namespace topk::testing
