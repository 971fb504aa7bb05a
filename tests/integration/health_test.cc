// Health checks.
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <thread>

#include "grpc/health/v1/health.grpc.pb.h"
#include "tests/integration/ask.h"
#include "tests/integration/raw_call.h"
#include "tests/support/test_server.h"

namespace topk::testing {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

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
  grpc::ClientContext context;
  HealthCheckResponse response;
  EXPECT_TRUE(Health::NewStub(server.Connect())
                  ->Check(&context, For(""), &response)
                  .ok());
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
