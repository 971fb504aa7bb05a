#include "server/healthcheck.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <iostream>
#include <string>

#include "grpc/health/v1/health.grpc.pb.h"

namespace topk {
namespace {

constexpr int kServing = 0;
constexpr int kNoConnection = 2;
constexpr int kCallFailed = 3;
constexpr int kNotServing = 4;

int Fail(int status, const std::string& why) {
  std::cerr << "topkd healthcheck: " << why << "\n";
  return status;
}

}  // namespace

int RunHealthcheck(const HealthcheckConfig& config) {
  using grpc::health::v1::Health;
  using grpc::health::v1::HealthCheckRequest;
  using grpc::health::v1::HealthCheckResponse;
  const auto deadline = std::chrono::system_clock::now() +
                        std::chrono::microseconds(
                            static_cast<int64_t>(config.timeout_seconds * 1e6));
  // The probe of a container asks its own server, whatever http_proxy says.
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  const auto channel = grpc::CreateCustomChannel(
      config.target, grpc::InsecureChannelCredentials(), arguments);
  if (!channel->WaitForConnected(deadline)) {
    return Fail(kNoConnection,
                "no connection to " + config.target + " in time");
  }
  grpc::ClientContext context;
  context.set_deadline(deadline);
  HealthCheckRequest request;
  request.set_service(config.service);
  HealthCheckResponse response;
  const grpc::Status status =
      Health::NewStub(channel)->Check(&context, request, &response);
  if (!status.ok()) {
    return Fail(kCallFailed, "the call failed: " + status.error_message());
  }
  if (response.status() != HealthCheckResponse::SERVING) {
    return Fail(kNotServing,
                HealthCheckResponse::ServingStatus_Name(response.status()));
  }
  return kServing;
}

}  // namespace topk
