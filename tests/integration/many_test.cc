// ComputeTopKMany returns results in order, with an error per request.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "tests/integration/ask.h"
#include "tests/integration/raw_call.h"
#include "tests/support/test_server.h"

namespace topk::testing {
namespace {

constexpr char kMany[] = "/topk.v1.TopKService/ComputeTopKMany";

v1::TopKResult ResultOf(const std::string& message) {
  v1::TopKResult result;
  EXPECT_TRUE(result.ParseFromString(message));
  return result;
}

// Requests that are waiting when the client cancels get no response.
TEST(ComputeTopKMany, RecordsTheRequestsOfAStreamThatIsCutOff) {
  TestServer server(WithMetrics());
  ManyCall stream(server);
  constexpr int kElements = 4'000'000;
  v1::TopKRequest large = OnnxRequest({}, kElements / 2);
  large.mutable_tensor()->set_shape(0, kElements);
  large.mutable_tensor()->set_data(std::string(kElements * sizeof(float), 1));
  stream->Write(large);
  for (int i = 0; i < 9; ++i) stream->Write(OnnxRequest({1, 2}, 1));
  const auto sum = [&server](const std::string& family) {
    double all = 0;
    for (const auto& [name, value] : Scrape(server)) {
      if (name.starts_with(family)) all += value;
    }
    return all;
  };
  EXPECT_TRUE(
      Eventually([&] { return sum("grpc_server_msg_received_total") == 10; }));
  stream.context().TryCancel();
  (void)stream->Finish();
  EXPECT_TRUE(Eventually([&] { return sum("topk_requests_total") == 10; }))
      << sum("topk_requests_total");
}

// Pollers compute groups of small requests, and workers compute large requests.
TEST(ComputeTopKMany, PreservesTheOrderOfThousands) {
  const TestServer server;
  ManyCall stream(server);
  constexpr int kRequests = 3000;
  std::thread writer([&] {
    v1::TopKRequest small = OnnxRequest(std::vector<float>(100), 1);
    v1::TopKRequest large = OnnxRequest(std::vector<float>(100'000), 1);
    for (int i = 0; i < kRequests; ++i) {
      v1::TopKRequest& request = i % 50 == 49 ? large : small;
      request.set_index_offset(i);
      stream->Write(request, grpc::WriteOptions().set_buffer_hint());
    }
    stream->WritesDone();
  });
  v1::TopKResult result;
  for (int64_t i = 0; i < kRequests; ++i) {
    ASSERT_TRUE(stream->Read(&result));
    int64_t index = 0;
    ASSERT_EQ(result.response().indices().data().size(), sizeof(index));
    std::memcpy(&index, result.response().indices().data().data(),
                sizeof(index));
    ASSERT_EQ(index, i);
  }
  writer.join();
  EXPECT_FALSE(stream->Read(&result));
  EXPECT_TRUE(stream->Finish().ok());
}

// A poller may receive the small request while another answers the large one.
TEST(ComputeTopKMany, AnswersRequestsThatArriveTogether) {
  const TestServer server;
  const auto channel = server.Connect();
  const v1::TopKRequest large = OnnxRequest(std::vector<float>(500'000), 1);
  const v1::TopKRequest small = OnnxRequest({1, 2, 3}, 1);
  for (int call = 0; call < 50; ++call) {
    ManyCall stream(channel);
    stream->Write(large);
    stream->Write(small);
    stream->WritesDone();
    v1::TopKResult result;
    ASSERT_TRUE(stream->Read(&result));
    ASSERT_TRUE(stream->Read(&result));
    ASSERT_TRUE(stream->Finish().ok());
  }
}

TEST(ComputeTopKMany, AppliesBackpressureToAClientThatDoesNotRead) {
  const TestServer server;
  ManyCall stream(server);
  constexpr int kRequests = 2000;  // 128 MB of requests, 384 MB of responses
  std::atomic<int> written = 0;
  std::thread writer([&] {
    v1::TopKRequest request = OnnxRequest(std::vector<float>(16000), 16000);
    while (written < kRequests && stream->Write(request)) ++written;
    stream->WritesDone();
  });
  // The writer blocks once all buffers are full.
  int before = -1;
  int still = 0;
  EXPECT_TRUE(Eventually([&] {
    still = written > 0 && written == before ? still + 1 : 0;
    before = written;
    return still >= 20;
  }));
  EXPECT_LT(written, kRequests / 2);
  v1::TopKResult result;
  int read = 0;
  while (stream->Read(&result)) {
    EXPECT_TRUE(result.has_response());
    ++read;
  }
  writer.join();
  EXPECT_EQ(read, kRequests);
  EXPECT_TRUE(stream->Finish().ok());
}

TEST(ComputeTopKMany, ReturnsAnErrorForInvalidMessages) {
  const TestServer server;
  const std::string good = OnnxRequest({1, 2, 3}, 1).SerializeAsString();
  // The middle message is truncated after its request_id.
  const std::string bad("\x3a\x02id\x0a\x7f", 6);
  const RawAnswer answer = RawCall(server.Connect(), kMany, {good, bad, good});
  EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
  ASSERT_EQ(answer.messages.size(), 3u);
  EXPECT_TRUE(ResultOf(answer.messages[0]).has_response());
  EXPECT_EQ(DetailsOf(ResultOf(answer.messages[1]).error()).info.reason(),
            "MALFORMED_MESSAGE");
  EXPECT_EQ(ResultOf(answer.messages[1]).request_id(), "");
  EXPECT_TRUE(ResultOf(answer.messages[2]).has_response());
}

}  // namespace
}  // namespace topk::testing
