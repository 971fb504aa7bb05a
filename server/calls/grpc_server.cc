#include "server/calls/grpc_server.h"

#include <utility>

namespace topk {

Result<std::unique_ptr<GrpcServer>> GrpcServer::Build(
    grpc::ServerBuilder& builder, std::unique_ptr<Acceptor> acceptor,
    CallRouter* router, int pollers, EventLoop::OnBusy on_busy) {
  if (router != nullptr) router->Register(builder);
  std::unique_ptr<grpc::ServerCompletionQueue> queue =
      builder.AddCompletionQueue();
  std::unique_ptr<grpc::Server> grpc = builder.BuildAndStart();
  // Create the event loop even if the server failed to start, because only the
  // loop shuts down the completion queue.
  auto loop = std::make_unique<EventLoop>(std::move(queue), pollers,
                                          std::move(on_busy));
  if (grpc == nullptr) {
    return Status{Code::kInternal, "START", "",
                  "gRPC could not start the server"};
  }
  std::unique_ptr<GrpcServer> server(new GrpcServer);
  server->grpc_ = std::move(grpc);
  server->acceptor_ = std::move(acceptor);
  server->loop_ = std::move(loop);
  if (router != nullptr) router->AcceptMore(*server->loop_);
  return server;
}

void GrpcServer::Serve() {
  // A new connection may bring hundreds of calls. Serve all clients before
  // accepting more connections, but wait at most kLongestPace.
  static constexpr std::chrono::milliseconds kLongestPace{100};
  acceptor_->Start([&loop = *loop_] { loop.WaitForTurn(kLongestPace); });
}

GrpcServer::~GrpcServer() {
  acceptor_->Stop();
  grpc_->Shutdown(std::chrono::system_clock::now());
}

}  // namespace topk
