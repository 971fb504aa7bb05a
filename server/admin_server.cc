#include "server/admin_server.h"

#include <grpc/grpc.h>
#include <grpcpp/ext/channelz_service_plugin.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <vector>

#include "server/transport/connection_care.h"
#include "server/transport/listeners.h"

namespace topk {

AdminServer::AdminServer(const RpcMetrics& metrics)
    : reflection_({"grpc.channelz.v1.Channelz"}, metrics, nullptr) {}

Result<std::unique_ptr<AdminServer>> AdminServer::Start(
    const std::string& address, const RpcMetrics& metrics) {
  // Process-wide: builders made from now on read it.
  grpc::channelz::experimental::InitChannelzService();

  std::unique_ptr<AdminServer> admin(new AdminServer(metrics));
  grpc::ServerBuilder builder;
  builder.RegisterService(&admin->reflection_.rpc());
  builder.SetMaxReceiveMessageSize(AuxiliaryCall::kMaxMessageBytes);
  ApplySideConnectionCare(builder);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // Channelz has gRPC's own handlers: one thread that waits will do.
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 1);
  int port = 0;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
  std::unique_ptr<grpc::ServerCompletionQueue> queue =
      builder.AddCompletionQueue();
  const std::vector<ListeningSocket> before = ListeningSockets();
  admin->grpc_ = builder.BuildAndStart();
  admin->connections_.emplace(ListeningSince(before),
                              ConnectionLimit::Default());
  admin->loop_ = std::make_unique<EventLoop>(std::move(queue), 1);
  if (admin->grpc_ == nullptr || port == 0) {
    return CannotBind("ADMIN_LISTEN", "admin_listen", "serve channelz on",
                      address);
  }
  admin->reflection_.Start(*admin->loop_);
  admin->address_ = WithPort(address, port);
  return admin;
}

AdminServer::~AdminServer() {
  connections_.reset();
  if (grpc_ != nullptr) grpc_->Shutdown(std::chrono::system_clock::now());
  loop_.reset();
}

}  // namespace topk
