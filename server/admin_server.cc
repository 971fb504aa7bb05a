#include "server/admin_server.h"

#include <grpcpp/ext/channelz_service_plugin.h>
#include <grpcpp/server_builder.h>

#include <vector>

namespace topk {

Result<std::unique_ptr<AdminServer>> AdminServer::Start(
    const std::string& address, const RpcMetrics& metrics) {
  // Process-wide: builders made from now on read it.
  grpc::channelz::experimental::InitChannelzService();

  auto reflection = std::make_unique<ReflectionService>(
      std::vector<std::string>{"grpc.channelz.v1.Channelz"}, metrics, nullptr);
  grpc::ServerBuilder builder;
  builder.RegisterService(&reflection->rpc());
  // Channelz has gRPC's own handlers: one thread that waits will do.
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 1);
  Result<SideServer> server = StartSideServer(
      {"ADMIN_LISTEN", "admin_listen", "serve channelz on", address}, builder,
      [&reflection](EventLoop& loop) { reflection->Start(loop); });
  if (!server.ok()) return server.status();
  return std::unique_ptr<AdminServer>(
      new AdminServer(std::move(reflection), *std::move(server)));
}

}  // namespace topk
