#include "server/admin_server.h"

#include <grpc/grpc.h>
#include <grpcpp/ext/channelz_service_plugin.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <utility>

#include "server/transport/listeners.h"

namespace topk {

AdminServer::AdminServer(std::unique_ptr<grpc::Server> server,
                         std::string address)
    : server_(std::move(server)), address_(std::move(address)) {}

Result<std::unique_ptr<AdminServer>> AdminServer::Start(
    const std::string& address) {
  // Process-wide: builders made from now on read it.
  grpc::channelz::experimental::InitChannelzService();
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();

  grpc::ServerBuilder builder;
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // gRPC's own handlers: one thread that waits will do.
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 1);
  int port = 0;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0) {
    return CannotBind("ADMIN_LISTEN", "admin_listen", "serve channelz on",
                      address);
  }
  return std::unique_ptr<AdminServer>(
      new AdminServer(std::move(server), WithPort(address, port)));
}

AdminServer::~AdminServer() {
  server_->Shutdown(std::chrono::system_clock::now());
}

}  // namespace topk
