// A gRPC server with its listening sockets and its pollers.
#pragma once

#include <grpcpp/completion_queue.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <memory>

#include "core/base/status.h"
#include "server/calls/call_router.h"
#include "server/calls/event_loop.h"
#include "server/grpc_workarounds/acceptor.h"

namespace topk {

/// Serves until it is destroyed.
class GrpcServer {
 public:
  /// Builds the server and starts to serve the methods of `router`, which must
  /// outlive the server; null if the builder has all services. The acceptor has
  /// bound its addresses for this builder. INTERNAL if gRPC cannot start,
  /// RESOURCE_EXHAUSTED if connections would find no file descriptor.
  static Result<std::unique_ptr<GrpcServer>> Start(
      grpc::ServerBuilder& builder, std::unique_ptr<Acceptor> acceptor,
      CallRouter* router, int pollers = 1, EventLoop::OnBusy on_busy = {});

  /// Cancels the calls in flight.
  ~GrpcServer();

  /// Closes the listening sockets; connections stay open.
  void StopAccepting();

  /// Asks the clients to send new calls elsewhere; calls that cross this are
  /// served. Returns false if this version of gRPC cannot.
  bool SendGoaways();

  /// Rejects new calls, and at the deadline cancels those in flight. Returns
  /// when all calls and connections have ended.
  void Shutdown(std::chrono::system_clock::time_point deadline);

  /// Ends all calls and connections. REQUIRES: Shutdown() was called.
  void CancelAll();

  /// Disconnects all clients, whatever has been written to them. REQUIRES:
  /// StopAccepting() was called.
  void DisconnectAll() { acceptor_->DisconnectAll(); }

 private:
  GrpcServer(std::unique_ptr<Acceptor> acceptor,
             std::unique_ptr<grpc::Server> grpc,
             std::unique_ptr<EventLoop> loop);

  std::unique_ptr<grpc::Server> grpc_;
  std::unique_ptr<Acceptor> acceptor_;
  std::unique_ptr<EventLoop> loop_;
};

}  // namespace topk
