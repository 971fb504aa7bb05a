#include "server/side_servers.h"

#include <grpcpp/ext/channelz_service_plugin.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <string_view>
#include <utility>

#include "server/auxiliary/auxiliary_call.h"
#include "server/grpc_workarounds/acceptor.h"
#include "server/grpc_workarounds/no_plugins.h"
#include "server/transport/connection_options.h"
#include "server/transport/listeners.h"

namespace topk {
namespace {

// Serves the services that the builder has, and health unless it is null.
// `reason`, `field` and `doing` as in CannotBind().
Result<std::unique_ptr<SideServer>> StartSideServer(
    const std::string& address, std::string_view reason, std::string_view field,
    std::string_view doing, grpc::ServerBuilder& builder,
    std::unique_ptr<HealthService> health) {
  builder.SetMaxReceiveMessageSize(AuxiliaryCall::kMaxMessageBytes);
  ApplySideConnectionOptions(builder);
  auto acceptor = std::make_unique<Acceptor>(SideConnectionOptions(),
                                             ConnectionReplacement::Default());
  if (!acceptor->Listen(address, builder, grpc::InsecureServerCredentials())) {
    return CannotBind(reason, field, doing, address, acceptor->error());
  }
  std::string bound = acceptor->addresses().front();
  Result<std::unique_ptr<GrpcServer>> grpc =
      GrpcServer::Start(builder, std::move(acceptor), [&](EventLoop& loop) {
        if (health != nullptr) health->Start(loop);
      });
  if (!grpc.ok()) return grpc.status();
  return std::make_unique<SideServer>(
      SideServer{std::move(health), *std::move(grpc), std::move(bound)});
}

}  // namespace

Result<std::unique_ptr<SideServer>> StartHealthServer(
    const std::string& address, HealthState& state, const RpcMetrics& metrics) {
  auto health = std::make_unique<HealthService>(state, metrics);
  grpc::ServerBuilder builder;
  builder.SetOption(WithoutPlugins());
  builder.RegisterService(&health->rpc());
  return StartSideServer(address, "HEALTH_LISTEN", "health_listen",
                         "serve health on", builder, std::move(health));
}

Result<std::unique_ptr<SideServer>> StartAdminServer(
    const std::string& address) {
  // Process-wide: builders made from now on read it.
  grpc::channelz::experimental::InitChannelzService();
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  // gRPC's own handlers: one thread that waits will do.
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 1);
  return StartSideServer(address, "ADMIN_LISTEN", "admin_listen",
                         "serve channelz on", builder, nullptr);
}

}  // namespace topk
