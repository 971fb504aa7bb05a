#include "client/topk_client.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "tests/clients/cpp/fake_server.h"
#include "tests/support/test_server.h"
#include "topk/v1/topk.grpc.pb.h"

namespace topk {
namespace {

using testing::Fake;
using testing::FakeServer;
using testing::OnnxRequest;
using testing::TestServer;

Client ClientOf(const std::string& target, int max_attempts = 4) {
  return Client({.target = target,
                 .deadline = std::chrono::seconds(20),
                 .max_attempts = max_attempts});
}

std::vector<float> Ramp(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i);
  return values;
}

std::vector<int64_t> Indices(const v1::TopKResponse& response) {
  const std::string& data = response.indices().data();
  std::vector<int64_t> indices(data.size() / sizeof(int64_t));
  std::memcpy(indices.data(), data.data(), data.size());
  return indices;
}

// Rejects the first calls with UNAVAILABLE, then answers.
class FailingServer {
 public:
  explicit FailingServer(int failures = 0) : failures_(failures) {}

  const std::string& target() const { return server_.target(); }
  FakeServer& server() { return server_; }

  std::atomic<int> calls = 0;

 private:
  std::atomic<int> failures_;
  FakeServer server_{
      Fake{.compute = [this](auto&, auto&, auto&) -> grpc::Status {
        ++calls;
        if (failures_-- <= 0) return grpc::Status::OK;
        return {grpc::StatusCode::UNAVAILABLE, "not now"};
      }}};
};

// Calls both servers by one client until each has answered.
void CallUntilBothAnswer(const Client& client, const FailingServer& a,
                         const FailingServer& b) {
  ASSERT_TRUE(testing::Eventually([&] {
    EXPECT_TRUE(client.ComputeTopK(OnnxRequest({1}, 1)).ok());
    return a.calls > 0 && b.calls > 0;
  }));
}

TEST(Client, ComputesOverTcpAndUnixSockets) {
  const std::string path =
      "unix:/tmp/topk-client-test-" + std::to_string(getpid());
  const TestServer server({.listen = {"127.0.0.1:0", path}});
  for (const std::string& target : {server.target(), path}) {
    const auto answer = ClientOf(target).ComputeTopK(OnnxRequest({1, 5, 3}, 2));
    ASSERT_TRUE(answer.ok()) << answer.status().message;
    EXPECT_EQ(Indices(*answer), (std::vector<int64_t>{1, 2}));
  }
}

TEST(Client, StreamingHasTheResultOfUnaryCalls) {
  const TestServer server;
  const Client client = ClientOf(server.target());
  // Answers of 8 bytes, and of 3.6 MB, which come in pieces.
  for (const int64_t k : {1, 300000}) {
    v1::TopKRequest request = OnnxRequest(Ramp(1000000), k);
    const auto unary = client.ComputeTopK(request);
    ASSERT_TRUE(unary.ok()) << unary.status().message;
    const std::string data = request.tensor().data();
    request.mutable_tensor()->clear_data();
    const auto streamed =
        client.StreamTopK(request, std::as_bytes(std::span(data)));
    ASSERT_TRUE(streamed.ok()) << streamed.status().message;
    EXPECT_EQ(streamed->values().data(), unary->values().data());
    EXPECT_EQ(streamed->indices().data(), unary->indices().data());
  }
}

// Returns a request for the greatest of `size` bytes, without them.
v1::TopKRequest MaxOfBytes(size_t size) {
  v1::TopKRequest request = OnnxRequest({1}, 1);
  request.mutable_tensor()->clear_data();
  request.mutable_tensor()->set_data_type(v1::DATA_TYPE_U8);
  request.mutable_tensor()->set_shape(0, static_cast<int64_t>(size));
  return request;
}

class MessageLimit : public ::testing::TestWithParam<int> {};

TEST_P(MessageLimit, NoMessageExceedsIt) {
  const size_t limit = size_t{1} << GetParam();
  const TestServer server({.max_message_bytes = static_cast<int64_t>(limit)});
  for (const size_t size : {limit - 200, limit - 60, limit - 30, limit,
                            3 * limit + 1, size_t{5} << 20}) {
    std::vector<std::byte> tensor(size);
    tensor[size - 2] = std::byte{7};
    v1::TopKRequest request = MaxOfBytes(size);
    for (const auto stream : {std::optional<bool>(), std::optional(true)}) {
      CallOptions options;
      options.stream = stream;
      // Each client asks for the limit itself.
      const auto answer =
          ClientOf(server.target()).ComputeTopK(request, tensor, options);
      ASSERT_TRUE(answer.ok()) << size << ": " << answer.status().message;
      EXPECT_EQ(Indices(*answer).front(), static_cast<int64_t>(size) - 2);
    }
    CallOptions unary;
    unary.stream = false;
    const Client client = ClientOf(server.target());
    const auto beside = client.ComputeTopK(request, tensor, unary);
    request.mutable_tensor()->set_data(tensor.data(), tensor.size());
    const auto whole = client.ComputeTopK(request);
    const auto many =
        client.ComputeTopKMany(std::vector{request, OnnxRequest({1}, 1)});
    EXPECT_TRUE(many[1].ok()) << many[1].status().message;
    const bool fits = request.ByteSizeLong() <= limit;
    EXPECT_EQ(whole.ok(), fits) << size;
    EXPECT_EQ(many[0].ok(), fits) << size;
    EXPECT_TRUE(beside.ok() || size > limit - 200);
    if (fits) continue;
    for (const auto* too_large : {&beside, &whole, &many[0]}) {
      EXPECT_EQ(too_large->status().code, Code::kResourceExhausted);
      EXPECT_EQ(too_large->status().reason, "REQUEST_TOO_LARGE");
      EXPECT_NE(too_large->status().message.find(std::to_string(limit) +
                                                 " (--max-message-bytes)"),
                std::string::npos)
          << too_large->status().message;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Client, MessageLimit, ::testing::Range(16, 23));

TEST(Client, ReceivesAnErrorBeforeTheStreamEnds) {
  const TestServer server;
  v1::TopKRequest request = OnnxRequest({1}, 7);
  request.mutable_tensor()->clear_data();
  const std::vector<std::byte> data(size_t{64} << 20);
  const auto answer = ClientOf(server.target()).StreamTopK(request, data);
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.status().code, Code::kInvalidArgument);
  EXPECT_EQ(answer.status().field, "onnx.k");
}

TEST(Client, ErrorsHaveReasonAndField) {
  const TestServer server;
  const auto answer =
      ClientOf(server.target()).ComputeTopK(OnnxRequest({1, 2, 3}, 4));
  ASSERT_FALSE(answer.ok());
  const Status& status = answer.status();
  EXPECT_EQ(status.code, Code::kInvalidArgument);
  EXPECT_EQ(status.reason, "K_EXCEEDS_DIMENSION");
  EXPECT_EQ(status.field, "onnx.k");
  EXPECT_EQ(status.message, "k = 4 exceeds dimension 3 along axis 0");
}

TEST(Client, ManyKeepTheirOrderAndTheirErrors) {
  const TestServer server;
  std::vector<v1::TopKRequest> requests;
  for (size_t i = 1; i <= 1000; ++i) {
    // Every seventh asks for more than there is.
    requests.push_back(OnnxRequest(Ramp(i), i % 7 == 0 ? 100000 : 1));
  }
  const auto results = ClientOf(server.target()).ComputeTopKMany(requests);
  ASSERT_EQ(results.size(), requests.size());
  for (size_t i = 1; i <= 1000; ++i) {
    const auto& result = results[i - 1];
    if (i % 7 == 0) {
      ASSERT_FALSE(result.ok());
      EXPECT_EQ(result.status().reason, "K_EXCEEDS_DIMENSION");
      EXPECT_EQ(result.status().field, "onnx.k");
    } else {
      ASSERT_TRUE(result.ok());
      EXPECT_EQ(Indices(*result),
                (std::vector<int64_t>{static_cast<int64_t>(i) - 1}));
    }
  }
}

TEST(Client, ManyReturnsTheErrorOfABrokenStream) {
  const FailingServer server;
  const std::vector<v1::TopKRequest> requests(3);
  const auto results = ClientOf(server.target()).ComputeTopKMany(requests);
  ASSERT_EQ(results.size(), 3u);
  for (const auto& result : results) {
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.status().code, Code::kUnimplemented);
  }
}

TEST(Client, RetriesUnavailableAlsoForLargeRequests) {
  // gRPC's own default would not retry beyond 256 KiB.
  for (const size_t count : {size_t{10}, size_t{1} << 18}) {
    FailingServer server(2);
    const auto answer =
        ClientOf(server.target()).ComputeTopK(OnnxRequest(Ramp(count), 1));
    ASSERT_TRUE(answer.ok()) << answer.status().message;
    EXPECT_EQ(server.calls, 3);
  }
}

TEST(Client, OneAttemptDisablesRetries) {
  FailingServer server(1);
  const auto answer =
      ClientOf(server.target(), 1).ComputeTopK(OnnxRequest({1}, 1));
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.status().code, Code::kUnavailable);
  EXPECT_EQ(server.calls, 1);
}

TEST(Client, UsesItsServersInTurn) {
  FailingServer a;
  FailingServer b;
  const Client client = ClientOf(a.target() + "," + b.target());
  CallUntilBothAnswer(client, a, b);
  const int before_a = a.calls;
  const int before_b = b.calls;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(client.ComputeTopK(OnnxRequest({1}, 1)).ok());
  }
  EXPECT_EQ(a.calls - before_a, 50);
  EXPECT_EQ(b.calls - before_b, 50);
}

TEST(Client, SkipsAServerThatIsNotServing) {
  FailingServer a;
  FailingServer b;
  const Client client = ClientOf(a.target() + "," + b.target());
  CallUntilBothAnswer(client, a, b);
  a.server().SetServing(false);
  ASSERT_TRUE(testing::Eventually([&] {
    const int before = a.calls;
    for (int i = 0; i < 10; ++i) {
      EXPECT_TRUE(client.ComputeTopK(OnnxRequest({1}, 1)).ok());
    }
    return a.calls == before;
  }));
}

TEST(Client, IsThreadSafe) {
  const TestServer server;
  const Client client = ClientOf(server.target());
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (size_t i = 1; i <= 50; ++i) {
        const auto answer = client.ComputeTopK(OnnxRequest(Ramp(i), 1));
        right += answer.ok() &&
                 Indices(*answer).front() == static_cast<int64_t>(i) - 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 400);
}

TEST(Client, DeadlinesEndCallsWithoutAServer) {
  const Client client(
      {.target = "127.0.0.1:1", .deadline = std::chrono::milliseconds(300)});
  const auto answer = client.ComputeTopK(OnnxRequest({1}, 1));
  ASSERT_FALSE(answer.ok());
  EXPECT_TRUE(answer.status().code == Code::kUnavailable ||
              answer.status().code == Code::kDeadlineExceeded);
}

TEST(Client, ADeadlineOfZeroSendsNothing) {
  FailingServer server;
  const Client usual = ClientOf(server.target());
  const Client zero({.target = server.target(), .deadline = {}});
  const v1::TopKRequest request = OnnxRequest({1}, 1);
  for (const auto& [client, deadline] :
       {std::pair(&usual, std::optional(std::chrono::milliseconds(0))),
        std::pair(&usual, std::optional(std::chrono::milliseconds(-1))),
        std::pair(&zero, std::optional<std::chrono::milliseconds>())}) {
    const CallOptions call{.deadline = deadline};
    for (const Status& status :
         {client->ComputeTopK(request, call).status(),
          client->StreamTopK(request, {}, call).status(),
          client->ComputeTopKMany({&request, 1}, call)[0].status(),
          client->GetCapabilities(call).status(),
          client->IsServing("", call).status()}) {
      EXPECT_EQ(status.code, Code::kDeadlineExceeded);
      EXPECT_EQ(status.message,
                "the deadline passed before the request was sent");
    }
  }
  EXPECT_EQ(server.calls, 0);
}

TEST(Client, EmptyBracesAreCallOptions) {
  const TestServer server;
  const auto answer =
      ClientOf(server.target()).ComputeTopK(OnnxRequest({1, 3, 2}, 1), {});
  ASSERT_TRUE(answer.ok()) << answer.status().message;
  EXPECT_EQ(Indices(*answer), std::vector<int64_t>{1});
}

TEST(Client, NamesADrainingServer) {
  FailingServer server;
  server.server().SetServing(false);
  const auto answer =
      ClientOf(server.target(), 1).ComputeTopK(OnnxRequest({1}, 1));
  ASSERT_FALSE(answer.ok());
  EXPECT_NE(answer.status().message.find("the server is draining"),
            std::string::npos)
      << answer.status().message;
}

TEST(Client, CapabilitiesAndHealth) {
  const TestServer server;
  const Client client = ClientOf(server.target());
  const auto capabilities = client.GetCapabilities();
  ASSERT_TRUE(capabilities.ok());
  EXPECT_EQ(capabilities->operators_size(), 9);
  EXPECT_TRUE(*client.IsServing(""));
  EXPECT_TRUE(*client.IsServing("topk.v1.TopKService"));
  EXPECT_EQ(client.IsServing("no.such.Service").status().code, Code::kNotFound);
}

}  // namespace
}  // namespace topk
