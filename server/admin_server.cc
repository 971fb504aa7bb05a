#include "server/admin_server.h"

#include <grpc/grpc.h>
#include <grpcpp/ext/channelz_service_plugin.h>
#include <grpcpp/grpcpp.h>

#include <chrono>

#include "server/transport/connection_options.h"
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
  ApplySideConnectionOptions(builder);
  // Channelz has gRPC's own handlers: one thread that waits will do.
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 1);
  if (!admin->acceptor_.Listen(address, builder,
                               grpc::InsecureServerCredentials())) {
    return CannotBind("ADMIN_LISTEN", "admin_listen", "serve channelz on",
                      address, admin->acceptor_.error());
  }
  std::unique_ptr<grpc::ServerCompletionQueue> queue =
      builder.AddCompletionQueue();
  admin->grpc_ = builder.BuildAndStart();
  if (admin->grpc_ == nullptr) {
    return Status{Code::kInternal, "START", "",
                  "gRPC could not start the server"};
  }
  admin->loop_ = std::make_unique<EventLoop>(std::move(queue), 1);
  admin->reflection_.Start(*admin->loop_);
  admin->acceptor_.Start();
  return admin;
}

AdminServer::~AdminServer() {
  acceptor_.Stop();
  if (grpc_ != nullptr) grpc_->Shutdown(std::chrono::system_clock::now());
  loop_.reset();
}

}  // namespace topk
