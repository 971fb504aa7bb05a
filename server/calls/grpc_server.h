// A gRPC server with its listening sockets and its pollers.
#pragma once

#include <grpcpp/completion_queue.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <memory>

#include "server/calls/call_router.h"
#include "server/grpc_workarounds/acceptor.h"
#include "server/threads/event_loop.h"
#include "topk/status.h"

namespace topk {

/// A server that stops when destroyed.
class GrpcServer {
 public:
  /// Builds a server for the methods of `router`, which must outlive the
  /// server. `router` may be null if `builder` already has all services.
  /// Connections wait until Serve(). Returns INTERNAL if gRPC cannot start.
  /// REQUIRES: acceptor->Listen() was called for `builder`.
  static Result<std::unique_ptr<GrpcServer>> Build(
      grpc::ServerBuilder& builder, std::unique_ptr<Acceptor> acceptor,
      CallRouter* router, int pollers = 1, EventLoop::OnBusy on_busy = {});

  /// Cancels the calls in flight.
  ~GrpcServer();

  /// Starts to accept connections. Call once.
  void Serve();

  grpc::Server& grpc() { return *grpc_; }
  Acceptor& acceptor() { return *acceptor_; }

 private:
  GrpcServer() = default;

  std::unique_ptr<grpc::Server> grpc_;
  std::unique_ptr<Acceptor> acceptor_;
  std::unique_ptr<EventLoop> loop_;
};

}  // namespace topk
