// StreamTopK: a tensor and its result in chunks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/integration/ask.h"
#include "tests/integration/raw_call.h"
#include "tests/support/oracle.h"
#include "tests/support/test_server.h"

namespace topk::testing {
namespace {

using ::testing::Each;
using ::testing::Le;

constexpr size_t kMiB = size_t{1} << 20;
constexpr char kStream[] = "/topk.v1.TopKService/StreamTopK";

std::string Header(const v1::TopKRequest& request) {
  return HeaderOf(request).SerializeAsString();
}

std::string Data(const std::string& data) {
  v1::TopKRequestChunk chunk;
  chunk.set_data(data);
  return chunk.SerializeAsString();
}

std::vector<std::string> Cut(const v1::TopKRequest& request, size_t size) {
  std::vector<std::string> messages = {Header(request)};
  const std::string& data = request.tensor().data();
  for (size_t begin = 0; begin < data.size(); begin += size) {
    messages.push_back(Data(data.substr(begin, size)));
  }
  return messages;
}

// Joins the chunks of a response and checks their order.
struct Answer {
  explicit Answer(const std::vector<std::string>& messages) {
    for (const std::string& message : messages) {
      v1::TopKResponseChunk chunk;
      EXPECT_TRUE(chunk.ParseFromString(message));
      EXPECT_EQ(chunk.has_header(), &message == &messages.front());
      EXPECT_TRUE(!chunk.has_values() || indices.empty());
      if (chunk.has_header()) header = chunk.header();
      values += chunk.values();
      indices += chunk.indices();
      sizes.push_back(chunk.values().size() + chunk.indices().size());
    }
  }

  v1::TopKResponse header;
  std::string values;
  std::string indices;
  std::vector<size_t> sizes;
};

std::vector<float> Numbers(int count) {
  std::vector<float> numbers;
  for (int64_t i = 0; i < count; ++i) {
    numbers.push_back(static_cast<float>(i * 7919 % 4093));
  }
  return numbers;
}

TEST(StreamTopK, SendsLargeResultsInChunks) {
  const TestServer server;
  const v1::TopKRequest request = OnnxRequest(Numbers(300'000), 200'000);
  const v1::TopKResponse expected = Oracle(request);
  const RawAnswer raw =
      RawCall(server.Connect(), kStream, Cut(request, kMiB - 3));
  ASSERT_TRUE(raw.status.ok()) << raw.status.error_message();
  const Answer answer(raw.messages);
  EXPECT_EQ(answer.header.values().source_case(), v1::Tensor::SOURCE_NOT_SET);
  EXPECT_EQ(answer.header.indices().source_case(), v1::Tensor::SOURCE_NOT_SET);
  EXPECT_EQ(answer.header.values().shape(0), 200'000);
  EXPECT_EQ(answer.values, expected.values().data());
  EXPECT_EQ(answer.indices, expected.indices().data());
  EXPECT_EQ(answer.sizes.size(), 1u + 1u + 2u);
  EXPECT_THAT(answer.sizes, Each(Le(kMiB)));
}

TEST(StreamTopK, SendsResultsUpToOneMiBWhole) {
  const TestServer server;
  // Each of the k elements has a value of 4 bytes and an index of 8 bytes.
  const int k = kMiB / 12;
  const auto pieces = [&](int count) {
    const RawAnswer answer =
        RawCall(server.Connect(), kStream,
                Cut(OnnxRequest(Numbers(100'000), count), kMiB));
    EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
    return answer.messages.size();
  };
  EXPECT_EQ(pieces(k), 1u);
  EXPECT_EQ(pieces(k + 1), 3u);
}

TEST(StreamTopK, RejectsAHeaderBeforeItsData) {
  const TestServer server;
  StreamCall stream(server);
  ASSERT_TRUE(stream->Write(HeaderOf(OnnxRequest({1, 2, 3}, 4))));
  v1::TopKResponseChunk answer;
  EXPECT_FALSE(stream->Read(&answer));  // without WritesDone()
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(DetailsOf(status).info.reason(), "K_EXCEEDS_DIMENSION");
}

TEST(StreamTopK, ReportsBrokenStreamsWithTheirField) {
  struct Broken {
    std::vector<std::string> messages;
    const char* reason;
    const char* field;
  };
  const v1::TopKRequest three = OnnxRequest({1, 2, 3}, 1);
  const std::string header = Header(three);
  const std::string data = Data(three.tensor().data());
  v1::TopKRequestChunk header_with_data;
  *header_with_data.mutable_header() = three;
  const Broken streams[] = {
      {{}, "HEADER_MISSING", "header"},
      {{""}, "HEADER_MISSING", "header"},
      {{data}, "HEADER_MISSING", "data"},
      {{header, header}, "HEADER_REPEATED", "header"},
      {{header, ""}, "DATA_MISSING", "data"},
      {{header_with_data.SerializeAsString()},
       "HEADER_HAS_DATA",
       "header.tensor"},
      {{header, Data("12345678901")}, "DATA_LENGTH", "tensor.data"},
      {{header, data, Data("3")}, "DATA_LENGTH", "tensor.data"},
      {{header}, "DATA_LENGTH", "tensor.data"},
      {{"\x0a\x7f"}, "MALFORMED_MESSAGE", ""},
      {{header, data, "\x0a\x7f"}, "MALFORMED_MESSAGE", ""},
  };
  const TestServer server;
  for (const auto& [messages, reason, field] : streams) {
    const RawAnswer answer = RawCall(server.Connect(), kStream, messages);
    const grpc::Status& status = answer.status;
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_TRUE(answer.messages.empty());
    const google::rpc::ErrorInfo info = DetailsOf(status).info;
    EXPECT_EQ(info.reason(), reason) << status.error_message();
    const auto found = info.metadata().find("field");
    EXPECT_EQ(found == info.metadata().end() ? "" : found->second, field)
        << status.error_message();
  }
}

// When a poller has handled all messages, it leaves the call to the poller that
// receives the next message, perhaps before the first poller has returned.
TEST(StreamTopK, HasTheUnaryResultWhilePollersTakeTurns) {
  const TestServer server;
  const v1::TopKRequest request = OnnxRequest(Numbers(1 << 20), 5);
  const v1::TopKResponse expected = Oracle(request);
  const std::vector<std::string> messages = Cut(request, 4096);
  std::vector<std::jthread> callers;
  for (int i = 0; i < 2; ++i) {
    callers.emplace_back([&] {
      const auto channel = server.Connect();
      for (int call = 0; call < 10; ++call) {
        const RawAnswer answer = RawCall(channel, kStream, messages);
        EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
        EXPECT_EQ(Comparable(Answer(answer.messages).header),
                  Comparable(expected));
      }
    });
  }
}

}  // namespace
}  // namespace topk::testing
