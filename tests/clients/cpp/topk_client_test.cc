// The C++ client: views, calls of every kind and their options.
#include <gmock/gmock.h>
#include <grpc/grpc.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <csignal>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/clients/cpp/fake_server.h"
#include "tests/integration/subprocess.h"
#include "tests/support/authority.h"
#include "tests/support/client_calls.h"
#include "tests/support/requests.h"
#include "tests/support/test_server.h"
#include "topk/client.h"

namespace topk {
namespace {

using std::chrono::milliseconds;
using testing::AnswerTo;
using testing::ComputeMany;
using testing::ComputeStream;
using testing::ComputeUnary;
using ::testing::ElementsAre;
using testing::Fake;
using testing::FakeServer;
using testing::OnnxRequest;
using ::testing::StartsWith;
using testing::TestServer;
using namespace std::chrono_literals;
using Chunks =
    grpc::ServerReaderWriter<v1::TopKResponseChunk, v1::TopKRequestChunk>;

// Keeps gRPC alive between tests: grpc_shutdown() may wait 10 s for a thread
// that still polls.
[[maybe_unused]] const bool kKeepsGrpc = (grpc_init(), true);

Client ClientOf(const std::string& target,
                std::optional<Retry> retry = Retry()) {
  return Client(
      {.target = target, .timeout = std::chrono::seconds(30), .retry = retry});
}

// A server whose first calls fail.
class FailingServer {
 public:
  explicit FailingServer(int failures = 0) : server_(MakeFake(failures)) {}

  const std::string& target() const { return server_.target(); }
  FakeServer& server() { return server_; }

  std::atomic<int> calls = 0;
  std::atomic<size_t> bytes = 0;  // total tensor bytes of the last call

 private:
  Fake MakeFake(int failures) {
    const auto end = [=, this] {
      return ++calls > failures
                 ? grpc::Status::OK
                 : grpc::Status(grpc::StatusCode::UNAVAILABLE, "not now");
    };
    Fake fake;
    fake.compute = [=, this](auto&, auto& request, auto&) {
      bytes = request.tensor().data().size();
      return end();
    };
    fake.stream = [=, this](Chunks& stream) {
      bytes = 0;
      v1::TopKResponseChunk answer;
      for (v1::TopKRequestChunk chunk; stream.Read(&chunk);) {
        bytes += chunk.data().size();
        if (chunk.has_header()) {
          *answer.mutable_header() = AnswerTo(chunk.header());
        }
      }
      const grpc::Status ended = end();
      if (ended.ok()) stream.Write(answer);
      return ended;
    };
    return fake;
  }

  FakeServer server_;
};

TEST(Client, AcceptsAListOfIpV6Addresses) {
  const FakeServer server(
      {.compute = [](auto&, auto&, auto&) { return grpc::Status::OK; }},
      "[::1]");
  if (server.target().empty()) GTEST_SKIP() << "no IPv6 on this machine";
  const auto answer = ComputeUnary(
      ClientOf(server.target() + "," + server.target()), OnnxRequest({1}, 1));
  EXPECT_TRUE(answer.ok()) << answer.status().message;
}

TEST(Client, OnlyRequestsThatAreNotStreamedExceedTheMessageLimit) {
  const TestServer server({.max_message_bytes = int64_t{16} << 20});
  const Client client = ClientOf(server.target());
  const std::vector<std::byte> tensor((size_t{17} << 20) + 1);
  v1::TopKRequest request =
      OnnxRequest(v1::DATA_TYPE_U8, {static_cast<int64_t>(tensor.size())}, 1);
  EXPECT_TRUE(client.ComputeTopK(Request(request, tensor)).ok());
  const auto unary =
      client.ComputeTopK(Request(request, tensor), {.stream = false});
  EXPECT_EQ(unary.status().code, Code::kResourceExhausted);
  request.mutable_tensor()->set_data(tensor.data(), tensor.size());
  for (const auto& result :
       ComputeMany(client, {request, OnnxRequest({1}, 1)})) {
    EXPECT_EQ(result.status().code, Code::kResourceExhausted);
  }
}

// Protobuf and gRPC do not support such messages.
TEST(Client, DoesNotSendMessagesOf2GiB) {
  const TestServer server;
  const Client client = ClientOf(server.target());
  const std::vector<std::byte> data(16);
  const Request large(OnnxRequest(v1::DATA_TYPE_U8, {int64_t{1} << 31}, 1),
                      std::span(data.data(), size_t{1} << 31));  // never read
  const Request requests[] = {Request(OnnxRequest({1}, 1)), large};
  std::vector<Status> ends;
  ends.push_back(client.ComputeTopK(large, {.stream = false}).status());
  client.ComputeTopK(large, {}, [&](Result<Response> result) {
    ends.push_back(result.status());
  });
  ends.push_back(client.ComputeTopKMany(
      requests,
      [&](size_t, Result<Response> r) { ends.push_back(r.status()); }));
  ASSERT_EQ(ends.size(), 5u);
  for (const Status& end : ends) EXPECT_EQ(end.reason, "REQUEST_TOO_LARGE");
}

TEST(Client, ErrorsMayArriveBeforeTheTensorHasBeenSent) {
  const TestServer server;
  v1::TopKRequest request = OnnxRequest({1, 2, 3}, 4);
  request.mutable_tensor()->clear_data();
  const Status status = ComputeStream(ClientOf(server.target()), request,
                                      std::vector<std::byte>(size_t{64} << 20))
                            .status();
  EXPECT_EQ(status.code, Code::kInvalidArgument);
  EXPECT_EQ(status.reason, "K_EXCEEDS_DIMENSION");
  EXPECT_EQ(status.field, "onnx.k");
  EXPECT_EQ(status.message, "k = 4 exceeds dimension 3 along axis 0");
}

TEST(Client, ManyLargeOnesDoNotBlockEachOther) {
  // Exceeds flow control in both directions: a client that writes all requests
  // before it reads a response hangs.
  const TestServer server;
  constexpr int64_t kElements = 1 << 18;
  const std::vector<v1::TopKRequest> requests(
      24, OnnxRequest(std::vector<float>(kElements), kElements));
  const auto results = ComputeMany(ClientOf(server.target()), requests);
  ASSERT_EQ(results.size(), requests.size());
  for (const auto& result : results) {
    ASSERT_TRUE(result.ok()) << result.status().message;
    EXPECT_EQ(result->values().data().size(), kElements * sizeof(float));
  }
}

// faulty_servers_test.py tests small requests. gRPC's own retries stop at 256
// KiB.
TEST(Retry, SendsLargeRequestsAgain) {
  const std::vector<std::byte> tensor(size_t{8} << 20);
  const v1::TopKRequest header =
      OnnxRequest(v1::DATA_TYPE_F32,
                  {static_cast<int64_t>(tensor.size() / sizeof(float))}, 1);
  v1::TopKRequest whole = header;
  whole.mutable_tensor()->set_data(tensor.data(), tensor.size());
  for (const bool stream : {false, true}) {
    FailingServer server(2);
    const Client client = ClientOf(server.target());
    const auto answer = stream ? ComputeStream(client, header, tensor)
                               : ComputeUnary(client, whole);
    ASSERT_TRUE(answer.ok()) << answer.status().message;
    EXPECT_EQ(server.calls, 3);
    EXPECT_EQ(server.bytes, tensor.size());
  }
}

// A draining server still answers, and other servers may not be known yet.
TEST(Client, CallsAServerThatIsNotServing) {
  FailingServer server;
  const Client client = ClientOf(server.target(), std::nullopt);
  ASSERT_TRUE(ComputeUnary(client, OnnxRequest({1}, 1)).ok());
  server.server().SetServing(false);
  const Result<bool> serving = client.IsServing("topk.v1.TopKService");
  ASSERT_TRUE(serving.ok()) << serving.status().message;
  EXPECT_FALSE(*serving);
  const auto answer = ComputeUnary(client, OnnxRequest({1}, 1));
  EXPECT_TRUE(answer.ok()) << answer.status().message;
}

TEST(Client, AcceptsTheLongestDeadline) {
  const FailingServer server;
  const auto answer = ComputeUnary(
      Client({.target = server.target(), .timeout = milliseconds::max()}),
      OnnxRequest({1}, 1));
  EXPECT_TRUE(answer.ok()) << answer.status().message;
}

TEST(Client, ADeadlineOfZeroSendsNothing) {
  FailingServer server;
  const Client usual = ClientOf(server.target());
  const Client zero({.target = server.target(), .timeout = {}});
  const v1::TopKRequest request = OnnxRequest({1}, 1);
  for (const auto& [client, deadline] :
       {std::pair(&usual, std::optional(milliseconds(0))),
        std::pair(&usual, std::optional(milliseconds(-1))),
        std::pair(&zero, std::optional<milliseconds>())}) {
    const CallOptions call{.timeout = deadline};
    for (const Status& status :
         {ComputeUnary(*client, request, call).status(),
          ComputeStream(*client, request, {}, call).status(),
          ComputeMany(*client, {request}, call)[0].status(),
          client->GetCapabilities(call).status(),
          client->IsServing("", call).status()}) {
      EXPECT_EQ(status.code, Code::kDeadlineExceeded);
      EXPECT_EQ(status.message,
                "the deadline passed before the request was sent");
    }
  }
  EXPECT_EQ(server.calls, 0);
}

// gRPC still uses the caller's memory when the deadline has passed.
class StoppedServer : public ::testing::TestWithParam<const char*> {};

TEST_P(StoppedServer, CallsEndAtTheirDeadline) {
  const testing::TemporaryFolder folder;
  const std::string where = GetParam();
  testing::Topkd topkd(
      {}, where == "unix" ? "unix:" + folder.File("socket") : where);
  const Client client = ClientOf(topkd.target());
  v1::TopKRequest request = OnnxRequest({1, 2, 3}, 1);
  ASSERT_TRUE(ComputeUnary(client, request).ok());

  const std::vector<std::byte> tensor(size_t{60} << 20);
  request.mutable_tensor()->clear_source();
  request.mutable_tensor()->set_shape(
      0, static_cast<int64_t>(tensor.size() / sizeof(float)));
  topkd.process().Signal(SIGSTOP);
  // Over TCP, the call may return 10 s after its deadline. The other 10 s are
  // slack for a loaded machine. The kernel never closes a Unix socket to a
  // stalled server, so the call may last until the server continues.
  constexpr std::chrono::seconds kBound(20);
  const std::chrono::seconds stopped = where == "unix" ? kBound / 10 : kBound;
  std::promise<void> ended;
  const std::jthread continues([&, end = ended.get_future()]() mutable {
    if (end.wait_for(stopped) != std::future_status::ready) {
      topkd.process().Signal(SIGCONT);
    }
  });
  CallOptions call;
  call.timeout = std::chrono::milliseconds(500);
  const auto start = std::chrono::steady_clock::now();
  const auto answer = ComputeStream(client, request, tensor, call);
  EXPECT_LT(std::chrono::steady_clock::now() - start, kBound);
  ended.set_value();
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.status().code, Code::kDeadlineExceeded);
  topkd.process().Signal(SIGCONT);
  const auto again = ComputeStream(client, request, tensor);
  EXPECT_TRUE(again.ok()) << again.status().message;
}

INSTANTIATE_TEST_SUITE_P(Over, StoppedServer,
                         ::testing::Values("127.0.0.1:0", "unix"),
                         [](const auto& param) {
                           return param.index == 0 ? "tcp" : "unix";
                         });

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
