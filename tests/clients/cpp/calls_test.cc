// Tests of views, asynchronous calls and CallOptions.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tests/clients/cpp/fake_server.h"
#include "tests/integration/subprocess.h"
#include "tests/support/authority.h"
#include "tests/support/test_server.h"
#include "topk/client.h"

namespace topk {
namespace {

using ::testing::ElementsAre;
using testing::Fake;
using testing::FakeServer;
using ::testing::StartsWith;
using testing::TestServer;
using namespace std::chrono_literals;

constexpr std::array<float, 4> kScores = {1, 9, 3, 7};

std::future<Result<Response>> ComputeAsync(const Client& client,
                                           const Request& request,
                                           const CallOptions& options = {}) {
  const auto promise = std::make_shared<std::promise<Result<Response>>>();
  client.ComputeTopK(request, options, [promise](Result<Response> response) {
    promise->set_value(std::move(response));
  });
  return promise->get_future();
}

template <class T>
std::vector<T> ToVector(const Result<std::span<const T>>& view) {
  EXPECT_TRUE(view.ok()) << view.status().message;
  return view.ok() ? std::vector<T>(view->begin(), view->end())
                   : std::vector<T>();
}

Request TwoLargest() { return Request::Onnx(kScores, {4}, 2); }

// Ends a call once the client has cancelled it, or after a minute.
Fake UntilCancelled(std::atomic<int>& calls) {
  return {.compute = [&calls](grpc::ServerContext& context, auto&, auto&) {
    ++calls;
    testing::Eventually([&] { return context.IsCancelled(); });
    return grpc::Status::OK;
  }};
}

TEST(Views, HaveTheTypesOfTheirDialect) {
  const TestServer server;
  const Client client({.target = server.target()});
  const auto onnx = client.ComputeTopK(TwoLargest());
  ASSERT_TRUE(onnx.ok()) << onnx.status().message;
  EXPECT_THAT(onnx->shape(), ElementsAre(2));
  EXPECT_THAT(ToVector(onnx->values<float>()), ElementsAre(9, 7));
  EXPECT_THAT(ToVector(onnx->indices()), ElementsAre(1, 3));
  EXPECT_EQ(onnx->values<double>().status().message,
            "the values are f32, not f64");
  EXPECT_EQ(onnx->indices<int32_t>().status().field,
            "response.indices.data_type");
  // The view outlives the temporary result.
  for (const int64_t index : *onnx->indices()) EXPECT_GT(index, 0);

  const std::vector<int16_t> rows = {4, 1, 2, 3, 9, 8};
  const auto openvino = client.ComputeTopK(
      Request::OpenVino(rows, {2, 3}, 2, {.largest = false, .sort = "index"}));
  ASSERT_TRUE(openvino.ok()) << openvino.status().message;
  EXPECT_THAT(ToVector(openvino->values<int16_t>()), ElementsAre(1, 2, 3, 8));
  EXPECT_THAT(ToVector(openvino->indices<int32_t>()), ElementsAre(1, 2, 0, 2));
  const auto directml = client.ComputeTopK(
      Request::DirectML(rows, {2, 3}, 1, {.axis = -2, .largest = true}));
  ASSERT_TRUE(directml.ok()) << directml.status().message;
  EXPECT_THAT(ToVector(directml->values<int16_t>()), ElementsAre(4, 9, 8));
  EXPECT_THAT(ToVector(directml->indices<uint32_t>()), ElementsAre(0, 1, 1));

  // C++ lacks bf16: 1, 2 and -1.
  const std::array<uint16_t, 3> bits = {0x3F80, 0x4000, 0xBF80};
  const auto bytes = client.ComputeTopK(Request::Onnx(
      {v1::DATA_TYPE_BF16, std::as_bytes(std::span(bits))}, {3}, 1));
  ASSERT_TRUE(bytes.ok()) << bytes.status().message;
  EXPECT_THAT(bytes->value_bytes(),
              ElementsAre(std::byte{0x00}, std::byte{0x40}));
  EXPECT_THAT(ToVector(bytes->indices()), ElementsAre(1));
}

TEST(Async, CopiesItsTensor) {
  const TestServer server;
  const Client client({.target = server.target()});
  std::vector<float> scores = {1, 9, 3, 7};
  const Request request = Request::Onnx(scores, {4}, 2);
  auto future = ComputeAsync(client, request);
  scores.assign(4, 0);
  const Result<Response> response = future.get();
  ASSERT_TRUE(response.ok()) << response.status().message;
  EXPECT_THAT(ToVector(response->indices()), ElementsAre(1, 3));
}

TEST(Async, CallsEndBeforeTheirClient) {
  std::atomic<int> calls = 0;
  const FakeServer server(UntilCancelled(calls));
  std::future<Result<Response>> future;
  {
    const Client client({.target = server.target()});
    future = ComputeAsync(client, TwoLargest());
    ASSERT_TRUE(testing::Eventually([&] { return calls == 1; }));
  }
  ASSERT_EQ(future.wait_for(0s), std::future_status::ready);
  EXPECT_EQ(future.get().status().code, Code::kCancelled);
}

TEST(Async, RetriesAndReportsErrors) {
  std::atomic<int> calls = 0;
  const FakeServer server({.compute = [&](auto&, auto&, auto&) {
    return ++calls < 3 ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "not now")
                       : grpc::Status::OK;
  }});
  const Client client({.target = server.target()});
  EXPECT_TRUE(ComputeAsync(client, TwoLargest()).get().ok());
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(
      ComputeAsync(client, TwoLargest(), {.timeout = 0ms}).get().status().code,
      Code::kDeadlineExceeded);
  EXPECT_EQ(calls, 3);
}

// Makes an asynchronous and a blocking call. Cancels both calls when the server
// has received them, according to `calls`. Returns the options of both.
CallOptions CancelBothCalls(const Client& client,
                            const std::atomic<int>& calls) {
  std::stop_source stop;
  const CallOptions options = {.stop = stop.get_token()};
  auto future = ComputeAsync(client, TwoLargest(), options);
  auto blocking = std::async(std::launch::async, [&] {
    return client.ComputeTopK(TwoLargest(), options).status().code;
  });
  EXPECT_TRUE(testing::Eventually([&] { return calls == 2; }));
  stop.request_stop();
  EXPECT_EQ(future.get().status().code, Code::kCancelled);
  EXPECT_EQ(blocking.get(), Code::kCancelled);
  return options;
}

TEST(Cancellation, EndsCallsInFlight) {
  std::atomic<int> calls = 0;
  const FakeServer server(UntilCancelled(calls));
  const Client client({.target = server.target()});
  const CallOptions options = CancelBothCalls(client, calls);
  EXPECT_EQ(client.ComputeTopK(TwoLargest(), options).status().code,
            Code::kCancelled);
  EXPECT_EQ(calls, 2);
}

TEST(Cancellation, EndsThePauseBetweenAttempts) {
  std::atomic<int> calls = 0;
  const FakeServer server({.compute = [&](auto&, auto&, auto&) -> grpc::Status {
    ++calls;
    return {grpc::StatusCode::UNAVAILABLE, "not now"};
  }});
  const Client client({.target = server.target(),
                       .retry = Retry{.initial = 50s, .maximum = 50s}});
  const auto start = std::chrono::steady_clock::now();
  CancelBothCalls(client, calls);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 40s);
}

TEST(Many, YieldsEachResponseAsItComes) {
  std::promise<void> first;
  const FakeServer server(
      {.many = [&, yielded = first.get_future().share()](auto& stream) {
        v1::TopKRequest request;
        for (bool sent = false; stream.Read(&request); sent = true) {
          // Send the second response only after the first has been delivered.
          if (sent && yielded.wait_for(20s) != std::future_status::ready) break;
          v1::TopKResult result;
          *result.mutable_response() = testing::AnswerTo(request);
          stream.Write(result);
        }
        return grpc::Status::OK;
      }});
  std::vector<size_t> order;
  const std::vector<Request> requests(2, TwoLargest());
  const Status status =
      Client({.target = server.target()})
          .ComputeTopKMany(requests, [&](size_t i, Result<Response> response) {
            EXPECT_TRUE(response.ok());
            order.push_back(i);
            if (i == 0) first.set_value();
          });
  EXPECT_TRUE(status.ok()) << status.message;
  EXPECT_THAT(order, ElementsAre(0, 1));
}

TEST(Options, MetadataOfTheCallReplacesThatOfTheClientAndTheToken) {
  std::mutex mutex;
  std::multimap<std::string, std::string> seen;
  const FakeServer server(
      {.compute = [&](grpc::ServerContext& context, auto&, auto&) {
        const std::lock_guard lock(mutex);
        seen = testing::HeadersOf(context);
        return grpc::Status::OK;
      }});
  const testing::TemporaryFolder folder;
  testing::WriteText(folder.File("token"), "0123456789abcdef\n");
  const Client client({.target = server.target(),
                       .metadata = {{"a", "1"}, {"b", "2"}},
                       .user_agent = "me/7",
                       .token_file = folder.File("token")});
  const auto headers = [&](const char* name) {
    const std::lock_guard lock(mutex);
    const auto [begin, end] = seen.equal_range(name);
    std::vector<std::string> values;
    for (auto it = begin; it != end; ++it) values.push_back(it->second);
    return values;
  };
  EXPECT_TRUE(client.ComputeTopK(TwoLargest()).ok());
  EXPECT_THAT(headers("a"), ElementsAre("1"));
  EXPECT_THAT(headers("authorization"), ElementsAre("Bearer 0123456789abcdef"));
  EXPECT_THAT(headers("user-agent"),
              ElementsAre(StartsWith("me/7 topk-client-cpp/" TOPK_VERSION
                                     " grpc-c++/")));
  const CallOptions mine = {
      .metadata = {{"a", "3"}, {"a", "4"}, {"authorization", "mine"}}};
  EXPECT_TRUE(ComputeAsync(client, TwoLargest(), mine).get().ok());
  EXPECT_THAT(headers("a"), ElementsAre("3", "4"));
  EXPECT_THAT(headers("b"), ElementsAre("2"));
  EXPECT_THAT(headers("authorization"), ElementsAre("mine"));
}

TEST(Options, InvalidMetadataOfACallIsAnError) {
  const FakeServer server(
      {.compute = [](auto&, auto&, auto&) { return grpc::Status::OK; }});
  const Client client({.target = server.target()});
  for (const auto& [name, value] :
       Metadata{{"A", "1"}, {"", "1"}, {"a", "\n"}, {"grpc-timeout", "1S"}}) {
    const CallOptions options = {.metadata = {{name, value}}};
    const std::vector<Request> requests = {TwoLargest()};
    for (const Status& status :
         {client.ComputeTopK(TwoLargest(), options).status(),
          ComputeAsync(client, TwoLargest(), options).get().status(),
          client.ComputeTopKMany(
              requests, [](size_t, auto) {}, options),
          client.GetCapabilities(options).status(),
          client.IsServing("", options).status()}) {
      EXPECT_EQ(status.code, Code::kInvalidArgument);
      EXPECT_EQ(status.field, "metadata");
    }
  }
  EXPECT_TRUE(
      client
          .ComputeTopK(TwoLargest(),
                       {.metadata = {{"a-bin", std::string("\0\n", 2)}}})
          .ok());
}

TEST(Options, ACallMayWaitForAConnection) {
  // Nothing listens on port 1.
  const Client client({.target = "127.0.0.1:1",
                       .timeout = 200ms,
                       .retry = std::nullopt,
                       .wait_for_ready = true});
  EXPECT_EQ(client.ComputeTopK(TwoLargest()).status().code,
            Code::kDeadlineExceeded);
  EXPECT_EQ(ComputeAsync(client, TwoLargest()).get().status().code,
            Code::kDeadlineExceeded);
  EXPECT_EQ(
      client
          .ComputeTopK(TwoLargest(), {.timeout = 20s, .wait_for_ready = false})
          .status()
          .code,
      Code::kUnavailable);
}

TEST(Options, ChannelArgumentsOverrideTheClients) {
  const FakeServer server(
      {.compute = [](auto&, auto&, auto&) { return grpc::Status::OK; }});
  const auto arguments = std::make_shared<grpc::ChannelArguments>();
  arguments->SetMaxReceiveMessageSize(1);
  const Client client(
      {.target = server.target(), .channel_arguments = arguments});
  EXPECT_EQ(client.ComputeTopK(TwoLargest()).status().code,
            Code::kResourceExhausted);
}

TEST(Options, AreChecked) {
  EXPECT_EQ(Client::Check({.metadata = {{"A", "1"}}}).message,
            "metadata: the key \"A\" must consist of lowercase letters, digits "
            "and _.-");
  for (const Retry& wrong :
       {Retry{.attempts = 0}, Retry{.initial = std::chrono::milliseconds(-1)},
        Retry{.maximum = std::chrono::milliseconds(0)},
        Retry{.multiplier = 0.5}}) {
    EXPECT_EQ(Client::Check({.retry = wrong}).field, "retry");
  }
  ClientOptions both = {.tls = true};
  both.credentials = grpc::InsecureChannelCredentials();
  EXPECT_EQ(Client::Check(both).field, "credentials");
}

}  // namespace
}  // namespace topk
