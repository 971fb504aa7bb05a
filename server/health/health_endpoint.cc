#include "server/health/health_endpoint.h"

#include <grpcpp/server_builder.h>

#include "server/grpc_workarounds/no_plugins.h"

namespace topk {

Result<std::unique_ptr<HealthEndpoint>> HealthEndpoint::Start(
    const std::string& address, HealthState& state, const RpcMetrics& metrics) {
  auto health = std::make_unique<HealthService>(state, metrics);
  grpc::ServerBuilder builder;
  builder.SetOption(WithoutPlugins());
  builder.RegisterService(&health->rpc());
  Result<SideServer> server = StartSideServer(
      {"HEALTH_LISTEN", "health_listen", "serve health on", address}, builder,
      [&health](EventLoop& loop) { health->Start(loop); });
  if (!server.ok()) return server.status();
  return std::unique_ptr<HealthEndpoint>(
      new HealthEndpoint(std::move(health), *std::move(server)));
}

}  // namespace topk
