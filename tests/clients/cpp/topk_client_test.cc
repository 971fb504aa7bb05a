#include <grpc/grpc.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <future>
#include <thread>

#include "tests/clients/cpp/fake_server.h"
#include "tests/integration/topkd.h"
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
using testing::Fake;
using testing::FakeServer;
using testing::OnnxRequest;
using testing::TestServer;
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

}  // namespace
}  // namespace topk
