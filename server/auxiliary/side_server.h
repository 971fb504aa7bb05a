// Small gRPC servers next to the main one: for probes and for operators.
#pragma once

#include <grpcpp/server_builder.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/status.h"
#include "server/calls/event_loop.h"
#include "server/calls/grpc_server.h"

namespace topk {

/// A plaintext server with one poller and a limit of connections, from its
/// start until it is destroyed.
struct SideServer {
  std::shared_ptr<void> services;
  std::unique_ptr<GrpcServer> grpc;
  /// The bound host:port.
  std::string address;
};

/// The setting of a side server; see CannotBind().
struct SideListener {
  std::string_view reason;
  std::string_view field;
  std::string_view doing;
  /// host:port, where port 0 is any free port.
  std::string address;
};

/// Serves the services that the builder has. `start_services` starts those of
/// them that `services` owns. UNAVAILABLE, naming the address, if it cannot be
/// bound.
Result<std::unique_ptr<SideServer>> StartSideServer(
    const SideListener& listener, grpc::ServerBuilder& builder,
    std::shared_ptr<void> services,
    const std::function<void(EventLoop&)>& start_services);

}  // namespace topk
