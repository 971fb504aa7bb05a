#include "server/health/health_endpoint.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <vector>

#include "server/transport/connection_care.h"
#include "server/transport/grpc_plugins.h"
#include "server/transport/listeners.h"

namespace topk {

Result<std::unique_ptr<HealthEndpoint>> HealthEndpoint::Start(
    const std::string& address, HealthState& state, const RpcMetrics& metrics) {
  std::unique_ptr<HealthEndpoint> endpoint(new HealthEndpoint(state, metrics));
  grpc::ServerBuilder builder;
  builder.SetOption(WithoutPlugins());
  builder.RegisterService(&endpoint->health_.rpc());
  builder.SetMaxReceiveMessageSize(AuxiliaryCall::kMaxMessageBytes);
  ApplySideConnectionCare(builder);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  int port = 0;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
  std::unique_ptr<grpc::ServerCompletionQueue> queue =
      builder.AddCompletionQueue();
  const std::vector<ListeningSocket> before = ListeningSockets();
  endpoint->grpc_ = builder.BuildAndStart();
  endpoint->connections_.emplace(ListeningSince(before),
                                 ConnectionLimit::Default());
  endpoint->loop_ = std::make_unique<EventLoop>(std::move(queue), 1);
  if (endpoint->grpc_ == nullptr || port == 0) {
    return CannotBind("HEALTH_LISTEN", "health_listen", "serve health on",
                      address);
  }
  endpoint->health_.Start(*endpoint->loop_);
  endpoint->address_ = WithPort(address, port);
  return endpoint;
}

HealthEndpoint::~HealthEndpoint() {
  connections_.reset();
  if (grpc_ != nullptr) grpc_->Shutdown(std::chrono::system_clock::now());
  loop_.reset();
}

}  // namespace topk
