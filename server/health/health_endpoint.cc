#include "server/health/health_endpoint.h"

#include <grpcpp/server_builder.h>

#include "server/grpc_workarounds/no_plugins.h"

namespace topk {

Result<std::unique_ptr<SideServer>> StartHealthEndpoint(
    const std::string& address, HealthState& state, const RpcMetrics& metrics) {
  const auto health = std::make_shared<HealthService>(state, metrics);
  grpc::ServerBuilder builder;
  builder.SetOption(WithoutPlugins());
  builder.RegisterService(&health->rpc());
  return StartSideServer(
      {"HEALTH_LISTEN", "health_listen", "serve health on", address}, builder,
      health, [&health](EventLoop& loop) { health->Start(loop); });
}

}  // namespace topk
