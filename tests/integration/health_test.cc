// Health checks and reflection.
#include <gtest/gtest.h>

#include <thread>

#include "grpc/health/v1/health.grpc.pb.h"
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

TEST(Health, ServesUnderEveryName) {
  const TestServer server;
  const auto stub = Health::NewStub(server.Connect());
  for (const char* name :
       {"", "topk.v1.TopKService", "grpc.health.v1.Health"}) {
    grpc::ClientContext context;
    HealthCheckResponse response;
    const grpc::Status status = stub->Check(&context, For(name), &response);
    EXPECT_TRUE(status.ok()) << name << ": " << status.error_message();
    EXPECT_EQ(response.status(), HealthCheckResponse::SERVING) << name;
  }
  grpc::ClientContext context;
  HealthCheckResponse response;
  EXPECT_EQ(stub->Check(&context, For("nobody"), &response).error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST(Health, WatchersAreToldOfADrainAndDoNotHoldItUp) {
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
  std::thread drain(
      [&] { server.server().Drain({}, std::chrono::minutes(5)); });
  for (const auto& watch : {all.get(), one.get()}) {
    EXPECT_TRUE(watch->Read(&response));
    EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
    EXPECT_FALSE(watch->Read(&response));
    EXPECT_EQ(watch->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  }
  drain.join();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

TEST(Health, WatchersOfNobodyAreToldSoAndMayGo) {
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

TEST(Reflection, ListsTheService) {
  const TestServer server;
  // ServerReflectionRequest.list_services, field 7, of any text.
  const RawAnswer answer =
      RawCall(server.Connect(),
              "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
              {"\x3a\x01*"});
  EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
  ASSERT_EQ(answer.messages.size(), 1u);
  EXPECT_NE(answer.messages[0].find("topk.v1.TopKService"), std::string::npos);
  EXPECT_NE(answer.messages[0].find("grpc.health.v1.Health"),
            std::string::npos);
}

TEST(Reflection, KnowsTheFileOfTheService) {
  const TestServer server;
  // ServerReflectionRequest.file_containing_symbol, field 4.
  const std::string symbol = "topk.v1.TopKService";
  const RawAnswer answer = RawCall(
      server.Connect(),
      "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
      {"\x22" + std::string(1, static_cast<char>(symbol.size())) + symbol});
  ASSERT_EQ(answer.messages.size(), 1u);
  EXPECT_NE(answer.messages[0].find("ComputeTopKMany"), std::string::npos);
}

}  // namespace
}  // namespace topk::testing
