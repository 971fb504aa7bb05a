#include "server/side_servers.h"

#include <grpcpp/ext/channelz_service_plugin.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <string_view>
#include <utility>

#include "server/grpc_workarounds/acceptor.h"
#include "server/grpc_workarounds/no_plugins.h"
#include "server/transport/addresses.h"
#include "server/transport/connection_options.h"

namespace topk {
namespace {

// Serves what `server` has and the services of the builder. For `doing`, see
// CannotBind().
Result<std::unique_ptr<SideServer>> StartSideServer(
    const std::string& address, std::string_view doing,
    grpc::ServerBuilder& builder, std::unique_ptr<SideServer> server) {
  builder.SetMaxReceiveMessageSize(HealthService::kMaxMessageBytes);
  ApplySideConnectionOptions(builder);
  auto acceptor = std::make_unique<Acceptor>(SideConnectionOptions(),
                                             ConnectionReplacement::Default());
  if (!acceptor->Listen(address, builder, grpc::InsecureServerCredentials())) {
    return CannotBind(doing, address, acceptor->error());
  }
  server->address = acceptor->addresses().front();
  Result<std::unique_ptr<GrpcServer>> grpc =
      GrpcServer::Start(builder, std::move(acceptor), server->router.get());
  if (!grpc.ok()) return grpc.status();
  server->grpc = *std::move(grpc);
  return server;
}

}  // namespace

Result<std::unique_ptr<SideServer>> StartHealthServer(
    const std::string& address, HealthState& state, const RpcMetrics& metrics) {
  auto server = std::make_unique<SideServer>();
  server->health = std::make_unique<HealthService>(state);
  server->router = std::make_unique<CallRouter>(metrics, nullptr);
  server->health->AddMethods(*server->router);
  grpc::ServerBuilder builder;
  builder.SetOption(std::make_unique<WithoutPlugins>());
  return StartSideServer(address, "serve health on", builder,
                         std::move(server));
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
  return StartSideServer(address, "serve channelz on", builder,
                         std::make_unique<SideServer>());
}

}  // namespace topk
