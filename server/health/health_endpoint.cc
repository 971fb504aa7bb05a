#include "server/health/health_endpoint.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <chrono>

#include "server/grpc_workarounds/no_plugins.h"
#include "server/transport/connection_options.h"
#include "server/transport/listeners.h"

namespace topk {

Result<std::unique_ptr<HealthEndpoint>> HealthEndpoint::Start(
    const std::string& address, HealthState& state, const RpcMetrics& metrics) {
  std::unique_ptr<HealthEndpoint> endpoint(new HealthEndpoint(state, metrics));
  grpc::ServerBuilder builder;
  builder.SetOption(WithoutPlugins());
  builder.RegisterService(&endpoint->health_.rpc());
  builder.SetMaxReceiveMessageSize(AuxiliaryCall::kMaxMessageBytes);
  ApplySideConnectionOptions(builder);
  if (!endpoint->acceptor_.Listen(address, builder,
                                  grpc::InsecureServerCredentials())) {
    return CannotBind("HEALTH_LISTEN", "health_listen", "serve health on",
                      address, endpoint->acceptor_.error());
  }
  std::unique_ptr<grpc::ServerCompletionQueue> queue =
      builder.AddCompletionQueue();
  endpoint->grpc_ = builder.BuildAndStart();
  if (endpoint->grpc_ == nullptr) {
    return Status{Code::kInternal, "START", "",
                  "gRPC could not start the server"};
  }
  endpoint->loop_ = std::make_unique<EventLoop>(std::move(queue), 1);
  endpoint->health_.Start(*endpoint->loop_);
  endpoint->acceptor_.Start();
  return endpoint;
}

HealthEndpoint::~HealthEndpoint() {
  acceptor_.Stop();
  if (grpc_ != nullptr) grpc_->Shutdown(std::chrono::system_clock::now());
  loop_.reset();
}

}  // namespace topk
