// StreamTopK: a tensor in pieces, its answer in pieces.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "tests/integration/ask.h"
#include "tests/integration/raw_call.h"
#include "tests/integration/rpc_status.h"
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

// The request as messages with pieces of one size.
std::vector<std::string> Cut(const v1::TopKRequest& request, size_t size) {
  std::vector<std::string> messages = {Header(request)};
  const std::string& data = request.tensor().data();
  for (size_t begin = 0; begin < data.size(); begin += size) {
    messages.push_back(Data(data.substr(begin, size)));
  }
  return messages;
}

// Puts an answer's pieces together, checking their order.
struct Answer {
  explicit Answer(const std::vector<std::string>& messages) {
    for (const std::string& message : messages) {
      v1::TopKResponseChunk chunk;
      EXPECT_TRUE(chunk.ParseFromString(message));
      EXPECT_EQ(chunk.has_header(), &message == &messages.front());
      if (chunk.has_header()) header = chunk.header();
      if (chunk.has_values()) {
        EXPECT_TRUE(indices.empty()) << "values after indices";
        values += chunk.values();
        sizes.push_back(chunk.values().size());
      }
      if (chunk.has_indices()) {
        indices += chunk.indices();
        sizes.push_back(chunk.indices().size());
      }
    }
  }

  v1::TopKResponse header;
  std::string values;
  std::string indices;
  std::vector<size_t> sizes;
};

v1::TopKResponse AskUnary(const TestServer& server,
                          const v1::TopKRequest& request) {
  Asked asked = Ask(server, request);
  EXPECT_TRUE(asked.status.ok()) << asked.status.error_message();
  asked.response.clear_execution();  // times differ
  return asked.response;
}

std::vector<float> Numbers(int count) {
  std::vector<float> numbers;
  for (int64_t i = 0; i < count; ++i) {
    numbers.push_back(static_cast<float>(i * 7919 % 4093));
  }
  return numbers;
}

TEST(StreamTopK, HasTheUnaryResultForAnyChunking) {
  const TestServer server;
  v1::TopKRequest request = OnnxRequest(Numbers(64), 5);
  request.set_request_id("cut");
  v1::TopKResponse expected = AskUnary(server, request);
  const auto channel = server.Connect();
  for (size_t size = 1; size <= request.tensor().data().size() + 1; size += 2) {
    const RawAnswer answer = RawCall(channel, kStream, Cut(request, size));
    ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
    ASSERT_EQ(answer.messages.size(), 1u) << "a small answer comes whole";
    v1::TopKResponse header = Answer(answer.messages).header;
    header.clear_execution();
    EXPECT_EQ(header.SerializeAsString(), expected.SerializeAsString())
        << "pieces of " << size;
  }
}

// The padding of DirectML's buffers is ignored, wherever chunks begin.
TEST(StreamTopK, AcceptsPaddedBuffers) {
  const TestServer server;
  const auto channel = server.Connect();
  for (const bool strided : {false, true}) {
    v1::TopKRequest request;
    request.mutable_spec()->set_dialect(v1::DIALECT_DIRECTML);
    request.mutable_directml()->set_axis(0);
    request.mutable_directml()->set_k(2);
    request.mutable_directml()->set_input_total_tensor_size_bytes(24);
    request.mutable_tensor()->set_data_type(v1::DATA_TYPE_U8);
    request.mutable_tensor()->add_shape(3);
    if (strided) request.mutable_tensor()->add_strides(3);
    request.mutable_tensor()->set_data(std::string("\5\6\7\7\0\0\6", 7) +
                                       std::string(17, '\xff'));
    const v1::TopKResponse expected = AskUnary(server, request);
    EXPECT_EQ(expected.values().data(), "\7\6");
    EXPECT_EQ(expected.indices().data()[0], strided ? 1 : 2);
    for (const size_t size : {1, 5, 24}) {
      const RawAnswer raw = RawCall(channel, kStream, Cut(request, size));
      ASSERT_TRUE(raw.status.ok()) << raw.status.error_message();
      const Answer answer(raw.messages);
      EXPECT_EQ(answer.header.values().data(), expected.values().data());
      EXPECT_EQ(answer.header.indices().data(), expected.indices().data());
    }
  }
}

TEST(StreamTopK, SendsLargeResultsInChunks) {
  const TestServer server;
  const v1::TopKRequest request = OnnxRequest(Numbers(300'000), 200'000);
  const v1::TopKResponse expected = AskUnary(server, request);
  const RawAnswer raw =
      RawCall(server.Connect(), kStream, Cut(request, kMiB - 3));
  ASSERT_TRUE(raw.status.ok()) << raw.status.error_message();
  const Answer answer(raw.messages);
  EXPECT_EQ(answer.header.values().source_case(), v1::Tensor::SOURCE_NOT_SET);
  EXPECT_EQ(answer.header.indices().source_case(), v1::Tensor::SOURCE_NOT_SET);
  EXPECT_EQ(answer.header.values().shape(0), 200'000);
  EXPECT_EQ(answer.values, expected.values().data());
  EXPECT_EQ(answer.indices, expected.indices().data());
  EXPECT_EQ(answer.sizes.size(), 1u + 2u);
  EXPECT_THAT(answer.sizes, Each(Le(kMiB)));
}

TEST(StreamTopK, SendsResultsUpToOneMiBWhole) {
  const TestServer server;
  // 12 bytes for each of k: 4 of value, 8 of index.
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
  const auto stub = server.Stub();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::seconds(20));
  const auto stream = stub->StreamTopK(&context);
  ASSERT_TRUE(stream->Write(HeaderOf(OnnxRequest({1, 2, 3}, 4))));
  v1::TopKResponseChunk answer;
  EXPECT_FALSE(stream->Read(&answer));  // and no WritesDone
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(DetailsOf(status).info.reason(), "K_EXCEEDS_DIMENSION");
}

struct Broken {
  const char* name;
  std::vector<std::string> messages;
  const char* reason;
  const char* field;
};

void PrintTo(const Broken& broken, std::ostream* out) { *out << broken.name; }

class BrokenStream : public ::testing::TestWithParam<Broken> {};

TEST_P(BrokenStream, ReportsInvalidResponsesWithTheirField) {
  const TestServer server;
  const RawAnswer answer =
      RawCall(server.Connect(), kStream, GetParam().messages);
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_TRUE(answer.messages.empty());
  const google::rpc::ErrorInfo info = DetailsOf(answer.status).info;
  EXPECT_EQ(info.reason(), GetParam().reason) << answer.status.error_message();
  const auto field = info.metadata().find("field");
  EXPECT_EQ(field == info.metadata().end() ? "" : field->second,
            GetParam().field);
}

const v1::TopKRequest kThree = OnnxRequest({1, 2, 3}, 1);
const std::string kHeader = Header(kThree);

std::string HeaderWithData() {
  v1::TopKRequestChunk chunk;
  *chunk.mutable_header() = kThree;
  return chunk.SerializeAsString();
}

INSTANTIATE_TEST_SUITE_P(
    StreamTopK, BrokenStream,
    ::testing::Values(
        Broken{"NoMessage", {}, "HEADER_MISSING", "header"},
        Broken{"EmptyMessage", {""}, "HEADER_MISSING", "header"},
        Broken{"DataFirst", {Data("x")}, "HEADER_MISSING", "data"},
        Broken{"SecondHeader", {kHeader, kHeader}, "HEADER_REPEATED", "header"},
        Broken{"EmptyMessageLater", {kHeader, ""}, "DATA_MISSING", "data"},
        Broken{"HeaderWithData",
               {HeaderWithData()},
               "HEADER_HAS_DATA",
               "header.tensor"},
        Broken{"TooFewBytes",
               {kHeader, Data("12345678901")},
               "DATA_LENGTH",
               "tensor.data"},
        Broken{"TooManyBytes",
               {kHeader, Data("123456789012"), Data("3")},
               "DATA_LENGTH",
               "tensor.data"},
        Broken{"NoBytes", {kHeader}, "DATA_LENGTH", "tensor.data"},
        Broken{"NotAMessageFirst", {"\x0a\x7f"}, "MALFORMED_MESSAGE", ""},
        Broken{"NotAMessageLater",
               {kHeader, Data("123456789012"), "\x0a\x7f"},
               "MALFORMED_MESSAGE",
               ""}),
    [](const auto& test) { return test.param.name; });

TEST(StreamTopK, AcceptsEmptyChunks) {
  const TestServer server;
  const RawAnswer answer =
      RawCall(server.Connect(), kStream,
              {kHeader, Data(""), Data(kThree.tensor().data()), Data("")});
  EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
}

TEST(StreamTopK, AcceptsTensorsAboveTheMessageLimit) {
  const TestServer server({.max_message_bytes = 2048});
  const v1::TopKRequest request = OnnxRequest(Numbers(100'000), 2);
  const RawAnswer answer =
      RawCall(server.Connect(), kStream, Cut(request, 2000));
  EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
}

// A poller that has found no message leaves the call to the one that receives
// the next, perhaps before it has left.
TEST(StreamTopK, HasTheUnaryResultWhilePollersTakeTurns) {
  const TestServer server;
  const v1::TopKRequest request = OnnxRequest(Numbers(1 << 20), 5);
  const v1::TopKResponse expected = AskUnary(server, request);
  const std::vector<std::string> messages = Cut(request, 4096);
  std::vector<std::jthread> callers;
  for (int i = 0; i < 2; ++i) {
    callers.emplace_back([&] {
      const auto channel = server.Connect();
      for (int call = 0; call < 10; ++call) {
        const RawAnswer answer = RawCall(channel, kStream, messages);
        EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
        v1::TopKResponse header = Answer(answer.messages).header;
        header.clear_execution();
        EXPECT_EQ(header.SerializeAsString(), expected.SerializeAsString());
      }
    });
  }
}

}  // namespace
}  // namespace topk::testing
