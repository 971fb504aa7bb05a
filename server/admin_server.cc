#include "server/admin_server.h"

#include <grpcpp/ext/channelz_service_plugin.h>
#include <grpcpp/server_builder.h>

#include <vector>

#include "server/auxiliary/reflection_service.h"

namespace topk {

Result<std::unique_ptr<SideServer>> StartAdminServer(
    const std::string& address, const RpcMetrics& metrics) {
  // Process-wide: builders made from now on read it.
  grpc::channelz::experimental::InitChannelzService();

  const auto reflection = std::make_shared<ReflectionService>(
      std::vector<std::string>{"grpc.channelz.v1.Channelz"}, metrics, nullptr);
  grpc::ServerBuilder builder;
  builder.RegisterService(&reflection->rpc());
  // Channelz has gRPC's own handlers: one thread that waits will do.
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 1);
  return StartSideServer(
      {"ADMIN_LISTEN", "admin_listen", "serve channelz on", address}, builder,
      reflection, [&reflection](EventLoop& loop) { reflection->Start(loop); });
}

}  // namespace topk
