// Rejections by an overloaded server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "tests/integration/ask.h"
#include "tests/integration/exposition.h"
#include "tests/integration/rpc_status.h"
#include "tests/support/test_server.h"
#include "topk/client.h"

namespace topk::testing {
namespace {

using ::testing::HasSubstr;

// A call that is in flight until destroyed.
class OpenCall {
 public:
  explicit OpenCall(const TestServer& server) : call_(server) {
    call_.Ask(OnnxRequest({1, 2}, 1));
  }
  ~OpenCall() { EXPECT_TRUE(call_.Finish().ok()); }

 private:
  ManyCall call_;
};

grpc::Status Compute(const TestServer& server, const v1::TopKRequest& request,
                     grpc::ClientContext& context) {
  v1::TopKResponse response;
  return server.Stub()->ComputeTopK(&context, request, &response);
}

std::string Pushback(const grpc::ClientContext& context) {
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto found = trailers.find("grpc-retry-pushback-ms");
  return found == trailers.end()
             ? ""
             : std::string(found->second.data(), found->second.size());
}

// Expects a rejection with a retry delay.
void ExpectLater(const grpc::Status& status, const grpc::ClientContext& context,
                 const std::string& reason, const std::string& subject) {
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
  EXPECT_EQ(Pushback(context), std::to_string(milliseconds));
}

TEST(Admission, RejectsCallsAboveTheLimit) {
  const TestServer server(
      {.max_inflight_calls = 2, .max_client_inflight_calls = 3});
  const v1::TopKRequest request = OnnxRequest({1, 2, 3}, 1);
  {
    const OpenCall one(server);
    const OpenCall two(server);
    grpc::ClientContext context;
    const grpc::Status status = Compute(server, request, context);
    ExpectLater(status, context, "TOO_MANY_CALLS", "server");
    EXPECT_THAT(server.Log(), HasSubstr("RESOURCE_EXHAUSTED"));
  }
  EXPECT_TRUE(Eventually([&] { return Ask(server, request).status.ok(); }));
}

TEST(Admission, OneClientCannotUseTheWholeLimit) {
  const TestServer server(
      {.max_inflight_calls = 3, .max_client_inflight_calls = 1});
  const OpenCall one(server);
  grpc::ClientContext context;
  const grpc::Status status =
      Compute(server, OnnxRequest({1, 2, 3}, 1), context);
  ExpectLater(status, context, "TOO_MANY_CALLS_OF_CLIENT",
              "client:addr:127.0.0.1");
}

TEST(Admission, HealthCallsAreNotCounted) {
  const TestServer server({.max_inflight_calls = 1});
  const OpenCall one(server);
  EXPECT_TRUE(*Client({.target = server.target()}).IsServing(""));
}

TEST(Admission, RejectsTooManySelectedElements) {
  const TestServer server({.max_selected_elements = 5});
  EXPECT_TRUE(Ask(server, OnnxRequest({1, 2, 3, 4, 5, 6}, 5)).status.ok());
  grpc::ClientContext other;
  const grpc::Status status =
      Compute(server, OnnxRequest({1, 2, 3, 4, 5, 6}, 6), other);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(DetailsOf(status).info.reason(), "TOO_MANY_SELECTED");
  EXPECT_EQ(Pushback(other), "-1") << "a retry cannot succeed";
}

TEST(Admission, ReportsRequestsThatNeverFit) {
  const TestServer server({.max_inflight_bytes = 1 << 20});
  grpc::ClientContext context;
  const grpc::Status status = Compute(
      server, OnnxRequest(std::vector<float>(1 << 20, 1.0F), 1), context);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(DetailsOf(status).info.reason(), "REQUEST_TOO_LARGE");
  EXPECT_FALSE(DetailsOf(status).retry.has_retry_delay());
  EXPECT_EQ(Pushback(context), "-1");
  EXPECT_TRUE(Ask(server, OnnxRequest({1, 2, 3}, 1)).status.ok());
}

// The memory of a tensor is charged only once some of its data has arrived.
TEST(Admission, AStreamIsChargedInProportionToWhatItSent) {
  constexpr int64_t kElements = int64_t{1} << 20;
  ServerConfig config = WithMetrics();
  config.max_inflight_bytes = 256 << 20;  // fits a few of these tensors
  TestServer server(config);
  const auto stub = server.Stub();
  v1::TopKRequestChunk header = HeaderOf(OnnxRequest({1}, kElements));
  header.mutable_header()->mutable_tensor()->set_shape(0, kElements);
  v1::TopKRequestChunk byte;
  byte.set_data("x");
  constexpr size_t kStreams = 20;
  std::vector<grpc::ClientContext> contexts(kStreams);
  std::vector<std::unique_ptr<
      grpc::ClientReaderWriter<v1::TopKRequestChunk, v1::TopKResponseChunk>>>
      streams;
  for (grpc::ClientContext& context : contexts) {
    streams.push_back(stub->StreamTopK(&context));
    ASSERT_TRUE(streams.back()->Write(header));
    ASSERT_TRUE(streams.back()->Write(byte));
  }
  ASSERT_TRUE(Eventually([&] {
    return Scrape(server).samples.at("topk_inflight_calls{}") == kStreams &&
           Scrape(server).samples.at("topk_inflight_bytes{}") >= kStreams;
  }));
  EXPECT_LT(Scrape(server).samples.at("topk_inflight_bytes{}"), 1 << 20);
  // One stream can still send its whole tensor, mostly in one message.
  byte.set_data(std::string(4 * kElements - 1, '\0'));
  ASSERT_TRUE(streams[0]->Write(byte));
  streams[0]->WritesDone();
  v1::TopKResponseChunk answer;
  ASSERT_TRUE(streams[0]->Read(&answer));
  EXPECT_EQ(answer.header().indices().shape(0), kElements);
  for (grpc::ClientContext& context : contexts) context.TryCancel();
  for (const auto& stream : streams) (void)stream->Finish();
}

// A stream whose chunks do not fit ends before the client has sent them all.
TEST(Admission, EndsAStreamWhoseChunkIsRejected) {
  constexpr int64_t kElements = int64_t{4} << 20;
  constexpr int64_t kK = kElements / 16;
  constexpr double kCost = 19e6;  // minimum charge of a started tensor
  ServerConfig config = WithMetrics();
  config.max_inflight_bytes = 64 << 20;
  config.max_client_inflight_bytes = 26 << 20;
  TestServer server(config);
  const auto stub = server.Stub();
  v1::TopKRequestChunk header = HeaderOf(OnnxRequest({1}, kK));
  header.mutable_header()->mutable_tensor()->set_shape(0, kElements);
  grpc::ClientContext contexts[2];
  contexts[1].set_deadline(std::chrono::system_clock::now() +
                           std::chrono::seconds(30));
  const auto taking = stub->StreamTopK(&contexts[0]);
  const auto rejected = stub->StreamTopK(&contexts[1]);
  const auto charged = [&] {
    return Scrape(server).samples.at("topk_inflight_bytes{}");
  };
  ASSERT_TRUE(rejected->Write(header));
  ASSERT_TRUE(Eventually([&] { return charged() > 0; }));
  ASSERT_TRUE(taking->Write(header));
  v1::TopKRequestChunk data;
  data.set_data(std::string(1 << 20, '\0'));
  ASSERT_TRUE(taking->Write(data));
  ASSERT_TRUE(Eventually([&] { return charged() >= kCost; }));

  // The chunks are too small to start the tensor, but take too much memory.
  data.set_data("abcd");
  for (int i = 0; i < 20'000 && rejected->Write(data); ++i) continue;
  v1::TopKResponseChunk answer;
  EXPECT_FALSE(rejected->Read(&answer));  // returns once the stream has ended
  const grpc::Status status = rejected->Finish();
  contexts[0].TryCancel();
  (void)taking->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(DetailsOf(status).info.reason(), "TOO_MANY_BYTES_OF_CLIENT");
}

// The result and the log identify the rejected request.
TEST(Admission, RejectedItemsKeepTheirIdAndLogLine) {
  const TestServer server({.max_inflight_bytes = 1 << 20});
  ManyCall stream(server);
  v1::TopKRequest large = OnnxRequest(std::vector<float>(1 << 20, 1.0F), 1);
  large.set_request_id("the-large-one");
  const v1::TopKResult result = stream.Ask(large);
  EXPECT_EQ(result.error().code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(result.request_id(), "the-large-one");
  EXPECT_TRUE(Eventually([&] {
    return server.Log().find("the-large-one") != std::string::npos;
  })) << server.Log();
  EXPECT_TRUE(stream.Finish().ok());
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
  const Client client({.target = server.target(), .max_attempts = 1});
  const std::vector<float> values(3 * kRate / sizeof(float), 1.0F);
  v1::TopKRequest header = HeaderOf(OnnxRequest({1}, 1)).header();
  header.mutable_tensor()->set_shape(0, static_cast<int64_t>(values.size()));
  const auto start = std::chrono::steady_clock::now();
  const auto answer =
      client.StreamTopK(header, std::as_bytes(std::span(values)));
  EXPECT_TRUE(answer.ok()) << answer.status().message;
  // The burst of the first second and the last reads are not delayed.
  EXPECT_GE(std::chrono::steady_clock::now() - start,
            std::chrono::milliseconds(900));
}

}  // namespace
}  // namespace topk::testing
