// Clients of a draining server.
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>

#include "inference/grpc_service.grpc.pb.h"
#include "tests/integration/ask.h"
#include "tests/integration/secured.h"
#include "tests/integration/subprocess.h"
#include "tests/support/test_server.h"

namespace topk::testing {
namespace {

const v1::TopKRequest& SmallRequest() {
  static const v1::TopKRequest request = OnnxRequest({1, 2, 3}, 1);
  return request;
}

bool Connects(const std::string& target) {
  const int fd = OpenSocketTo(target);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

// A StreamTopK call whose header the server has received.
class OpenTensor {
 public:
  OpenTensor(TestServer& server, const std::string& target) : call_(target) {
    EXPECT_TRUE(call_->Write(HeaderOf(SmallRequest())));
    EXPECT_TRUE(
        Eventually([&] { return Value(server, "topk_inflight_bytes{}") > 0; }));
  }

  // Sends the data. Returns the status of the call.
  grpc::Status Finish() {
    v1::TopKRequestChunk data;
    data.set_data(SmallRequest().tensor().data());
    v1::TopKResponseChunk answer;
    if (call_->Write(data) && call_->WritesDone()) {
      while (call_->Read(&answer)) continue;
    }
    return call_->Finish();
  }

 private:
  StreamCall call_;
};

void ExpectShutDown(const grpc::Status& status) {
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  const Details details = DetailsOf(status);
  EXPECT_EQ(details.info.reason(), "SHUTTING_DOWN") << status.error_message();
  EXPECT_TRUE(details.retry.has_retry_delay());
  EXPECT_EQ(details.quota.violations_size(), 0);
}

// Sends a tensor in `chunks` chunks of one element, with a pause before each
// message, to a server that starts to drain before the header. Returns the
// status of the call.
grpc::Status SendDuringDrain(int chunks, std::chrono::milliseconds pause,
                             std::chrono::milliseconds timeout) {
  TestServer server(WithMetrics());
  StreamCall call(server);
  EXPECT_TRUE(
      Eventually([&] { return Value(server, "topk_inflight_calls{}") == 1; }));
  const std::jthread drain([&] { server.server().Drain({}, timeout); });
  v1::TopKRequest request = SmallRequest();
  request.mutable_tensor()->set_shape(0, chunks);
  v1::TopKRequestChunk chunk = HeaderOf(request);
  bool open = true;
  for (int i = 0; open && i <= chunks; ++i) {
    std::this_thread::sleep_for(pause);
    open = call->Write(chunk);
    chunk.set_data("1234");
  }
  v1::TopKResponseChunk answer;
  if (open && call->WritesDone()) {
    while (call->Read(&answer)) continue;
  }
  return call->Finish();
}

TEST(Drain, WaitsForAStreamThatPauses) {
  const grpc::Status status = SendDuringDrain(
      /*chunks=*/2, std::chrono::milliseconds(1700), std::chrono::minutes(5));
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST(Drain, EndsAStreamThatStillSendsBeforeTheTimeout) {
  ExpectShutDown(SendDuringDrain(/*chunks=*/1000, std::chrono::milliseconds(50),
                                 std::chrono::seconds(4)));
}

TEST(Drain, EndsIdleStreams) {
  TestServer server(WithMetrics());
  ManyCall many(server);
  many.Ask(SmallRequest());
  const auto oip_stub =
      inference::GRPCInferenceService::NewStub(server.Connect());
  grpc::ClientContext context;
  const auto infer = oip_stub->ModelStreamInfer(&context);
  ASSERT_TRUE(infer->Write({}));
  inference::ModelStreamInferResponse response;
  ASSERT_TRUE(infer->Read(&response));
  StreamCall no_header(server);
  StreamCall no_data(server);
  ASSERT_TRUE(no_data->Write(HeaderOf(SmallRequest())));
  EXPECT_TRUE(
      Eventually([&] { return Value(server, "topk_inflight_calls{}") == 4; }));

  const auto start = std::chrono::steady_clock::now();
  server.server().Drain({}, std::chrono::minutes(5));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::minutes(2));
  v1::TopKResult result;
  EXPECT_FALSE(many->Read(&result));
  ExpectShutDown(many->Finish());
  ExpectShutDown(infer->Finish());
  ExpectShutDown(no_header->Finish());
  ExpectShutDown(no_data->Finish());
}

// The server answers all requests that it has received, in order.
TEST(Drain, AnswersABusyStreamBeforeItsEnd) {
  TestServer server(WithMetrics());
  ManyCall many(server);
  many.Ask(SmallRequest());
  std::atomic<int> sent = 1;
  std::thread writer([&] {
    v1::TopKRequest request = SmallRequest();
    do {
      request.set_request_id(std::to_string(sent++));
    } while (many->Write(request));
  });
  std::jthread drain;
  v1::TopKResult result;
  int received = 1;
  while (many->Read(&result)) {
    ASSERT_TRUE(result.has_response());
    ASSERT_EQ(result.request_id(), std::to_string(received++));
    if (received == 100) drain = StartDrain(server);
  }
  drain.join();
  writer.join();
  EXPECT_LE(received, sent);
  EXPECT_EQ(received, Value(server,
                            "topk_requests_total{code=\"OK\","
                            "dialect=\"onnx\",version=\"11\"}"));
  ExpectShutDown(many->Finish());
}

// A client that knows only draining servers can reconnect while it looks for
// others.
TEST(Drain, AsksClientsToReconnectWhileItAccepts) {
  TestServer server;
  const auto channel =
      grpc::CreateChannel(server.target(), grpc::InsecureChannelCredentials());
  const auto stub = v1::TopKService::NewStub(channel);
  ASSERT_TRUE(Ask(*stub, SmallRequest()).status.ok());
  const std::jthread drain = StartDrain(server, std::chrono::seconds(10));
  EXPECT_TRUE(Eventually([&] {
    return channel->GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_IDLE;
  }));
  const grpc::Status status = Ask(*stub, SmallRequest()).status;
  EXPECT_TRUE(status.ok()) << status.error_message();
  ManyCall many(channel);
  many.Ask(SmallRequest());
}

// While a drain waits for a client that does not read, others are served.
TEST(Drain, ServesNewCallsWhileItEndsOpenOnes) {
  using std::chrono::milliseconds;
  TestServer server;
  ManyCall unread(server);
  std::thread writer([&] {
    const auto request = OnnxRequest(std::vector<float>(16000), 16000);
    while (unread->Write(request)) continue;
  });
  const auto start = std::chrono::steady_clock::now();
  // From 1.8 s on, calls older than 0.3 s are ended. After 2.3 s, a GOAWAY is
  // sent, during which gRPC's stubs can lose a call.
  const std::jthread drain = StartDrain(server, milliseconds(3000));
  int served = 0;
  while (std::chrono::steady_clock::now() - start < milliseconds(2100)) {
    const auto begun = std::chrono::steady_clock::now();
    ManyCall call(server);
    v1::TopKResult result;
    const bool ok = call->Write(SmallRequest()) && call->Read(&result);
    const grpc::Status status = call.Finish();
    const bool slow =
        std::chrono::steady_clock::now() - begun > milliseconds(100);
    EXPECT_TRUE((ok && status.ok()) || slow) << status.error_message();
    served += ok ? 1 : 0;
  }
  EXPECT_GT(served, 0);
  unread.context().TryCancel();
  writer.join();
}

// Completes a TLS handshake on a connection. Returns whether the server then
// sends GOAWAY.
bool IsToldToGoAway(int fd) {
  const std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context(
      SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
  const std::unique_ptr<SSL, void (*)(SSL*)> tls(SSL_new(context.get()),
                                                 SSL_free);
  const unsigned char protocol[] = {2, 'h', '2'};
  SSL_set_alpn_protos(tls.get(), protocol, sizeof(protocol));
  SSL_set_fd(tls.get(), fd);
  EXPECT_EQ(SSL_connect(tls.get()), 1);
  // The preface of HTTP/2, and a frame of SETTINGS.
  const std::string hello("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0",
                          33);
  SSL_write(tls.get(), hello.data(), static_cast<int>(hello.size()));
  const std::string goaway("\7\0\0\0\0\0", 6);  // without its length
  std::string received;
  char buffer[4096];
  while (received.find(goaway) == std::string::npos) {
    const int size = SSL_read(tls.get(), buffer, sizeof(buffer));
    if (size <= 0) return false;
    received.append(buffer, static_cast<size_t>(size));
  }
  return true;
}

using TlsDrain = Secured;

TEST_F(TlsDrain, SendsGoawayOnConnectionsThatCompleteTheirHandshake) {
  ServerConfig config = TlsConfig();
  config.listen = {"127.0.0.1:0", "unix:" + File("socket")};
  config.metrics_listen = "127.0.0.1:0";
  TestServer server(config);
  OpenTensor open(server, server.server().addresses()[1]);
  const int held = OpenSocketTo(server.target());
  const std::jthread drain = StartDrain(server);
  EXPECT_TRUE(Eventually([&] { return !Connects(server.target()); }));
  EXPECT_TRUE(IsToldToGoAway(held));
  close(held);
  EXPECT_TRUE(open.Finish().ok()) << "the server is not shutting down yet";
}

TEST(Drain, KeepsListenersOnTheSamePortOfOtherAddresses) {
  const std::string port =
      TakenPort(/*listens=*/false).address().substr(sizeof("127.0.0.1") - 1);
  ServerConfig config;
  config.listen = {"127.0.0.1" + port};
  config.health_listen = "127.0.0.2" + port;
  config.metrics_listen = "127.0.0.3" + port;
  config.admin_listen = "127.0.0.4" + port;
  TestServer server(config);
  OpenTensor open(server, server.target());
  const std::jthread drain = StartDrain(server);
  EXPECT_TRUE(Eventually([&] { return !Connects(config.listen[0]); }));
  for (const std::string& other :
       {config.health_listen, config.metrics_listen, config.admin_listen}) {
    EXPECT_TRUE(Connects(other)) << other;
  }
  EXPECT_TRUE(open.Finish().ok());
}

TEST(Drain, IsNotNeededBeforeDestruction) {
  auto server = std::make_unique<TestServer>();
  StreamCall stream(*server);
  ASSERT_TRUE(stream->Write(HeaderOf(SmallRequest())));
  server.reset();
  EXPECT_FALSE(stream->Finish().ok());
}

}  // namespace
}  // namespace topk::testing
