// The methods of topk.v1.TopKService, the details of their errors, and health
// checks.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "grpc/health/v1/health.grpc.pb.h"
#include "server/calls/status_map.h"
#include "tests/integration/ask.h"
#include "tests/support/oracle.h"
#include "tests/support/test_server.h"

namespace topk::testing {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Le;

TEST(GetCapabilities, NamesTheLimitsInForce) {
  for (const bool shared_memory : {false, true}) {
    const TestServer server({.allow_shared_memory = shared_memory,
                             .max_message_bytes = 12345,
                             .max_elements = 678,
                             .max_output_bytes = 90});
    const v1::Capabilities capabilities =
        CallUnary(*server.Stub(), &v1::TopKService::Stub::GetCapabilities)
            .response;
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

// When a poller has handled all messages of a stream, it leaves the call to the
// poller that receives the next message, perhaps before the first poller has
// returned.
TEST(StreamTopK, ReadsManySmallChunks) {
  const TestServer server({.threads = 16, .pollers = 16});
  const v1::TopKRequest request = OnnxRequest(Numbers(1 << 20), 5);
  const std::vector<std::string> chunks = Cut(request, 4096);
  const v1::TopKResponse expected = Oracle(request);
  std::vector<std::jthread> callers;
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back([&] {
      const RawAnswer answer = RawCall(server.Connect(), kStream, chunks);
      ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
      EXPECT_EQ(Comparable(Answer(answer.messages).header),
                Comparable(expected));
    });
  }
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

// Pollers compute small requests, and workers compute large requests.
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

HealthCheckRequest For(const std::string& service) {
  HealthCheckRequest request;
  request.set_service(service);
  return request;
}

TEST(Health, DrainNotifiesAndIgnoresWatchers) {
  TestServer server;
  const auto stub = Health::NewStub(server.Connect());
  grpc::ClientContext contexts[2];
  const auto all = stub->Watch(&contexts[0], For(""));
  const auto one = stub->Watch(&contexts[1], For("topk.v1.TopKService"));
  HealthCheckResponse response;
  for (const auto& watch : {all.get(), one.get()}) {
    ASSERT_TRUE(watch->Read(&response));
    EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  }
  const auto start = std::chrono::steady_clock::now();
  std::jthread drain = StartDrain(server);
  for (const auto& watch : {all.get(), one.get()}) {
    EXPECT_TRUE(watch->Read(&response));
    EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
    EXPECT_FALSE(watch->Read(&response));
    EXPECT_EQ(watch->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  }
  drain.join();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::minutes(2));
}

TEST(Health, WatchOfAnUnknownServiceMayBeCancelled) {
  TestServer server;
  const auto stub = Health::NewStub(server.Connect());
  for (int i = 0; i < 20; ++i) {
    grpc::ClientContext context;
    const auto watch = stub->Watch(&context, For("nobody"));
    HealthCheckResponse response;
    ASSERT_TRUE(watch->Read(&response));
    EXPECT_EQ(response.status(), HealthCheckResponse::SERVICE_UNKNOWN);
    context.TryCancel();
    EXPECT_FALSE(watch->Read(&response));
    EXPECT_EQ(watch->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
}

TEST(Health, EndsCallsWhoseMessageDoesNotArrive) {
  const TestServer server;
  grpc::GenericStub stub(server.Connect());
  grpc::CompletionQueue queue;
  grpc::ClientContext contexts[12];
  std::vector<std::unique_ptr<grpc::GenericClientAsyncReaderWriter>> calls;
  std::vector<grpc::Status> statuses(std::size(contexts));
  for (size_t i = 0; i < std::size(contexts); ++i) {
    contexts[i].set_deadline(std::chrono::system_clock::now() +
                             std::chrono::seconds(60));
    calls.push_back(stub.PrepareCall(&contexts[i],
                                     i % 2 == 0
                                         ? "/grpc.health.v1.Health/Check"
                                         : "/grpc.health.v1.Health/Watch",
                                     &queue));
    calls[i]->StartCall(nullptr);
    calls[i]->Finish(&statuses[i], &statuses[i]);
  }
  // Do not wait for the last two calls, which may take longer.
  void* tag = nullptr;
  bool ok = false;
  for (size_t ended = 0; ended < std::size(contexts) - 2;) {
    ASSERT_TRUE(queue.Next(&tag, &ok));
    if (tag == nullptr) continue;
    ++ended;
    const auto& status = *static_cast<grpc::Status*>(tag);
    EXPECT_EQ(DetailsOf(status).info.reason(), "MESSAGE_LATE");
    EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  }
  EXPECT_TRUE(CallUnary(*Health::NewStub(server.Connect()),
                        &Health::Stub::Check, For(""))
                  .status.ok());
  for (grpc::ClientContext& one : contexts) one.TryCancel();
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
}

TEST(Health, RejectsInvalidMessages) {
  const TestServer server;
  const std::pair<std::vector<std::string>, grpc::StatusCode> calls[] = {
      {{}, grpc::StatusCode::INVALID_ARGUMENT},
      {{"\xff"}, grpc::StatusCode::INVALID_ARGUMENT},
      {{For(std::string(1000, 'x')).SerializeAsString()},
       grpc::StatusCode::NOT_FOUND},
      {{For(std::string(1100, 'x')).SerializeAsString()},
       grpc::StatusCode::RESOURCE_EXHAUSTED},
      {{std::string(5 << 20, 'x')}, grpc::StatusCode::RESOURCE_EXHAUSTED}};
  for (const auto algorithm : {GRPC_COMPRESS_NONE, GRPC_COMPRESS_GZIP}) {
    grpc::ChannelArguments arguments;
    arguments.SetCompressionAlgorithm(algorithm);  // of messages that shrink
    const auto channel = grpc::CreateCustomChannel(
        server.target(), grpc::InsecureChannelCredentials(), arguments);
    for (const auto& [messages, code] : calls) {
      const grpc::Status status =
          RawCall(channel, "/grpc.health.v1.Health/Check", messages).status;
      EXPECT_EQ(status.error_code(), code) << status.error_message();
    }
  }
}

}  // namespace
}  // namespace topk::testing
