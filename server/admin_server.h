// The gRPC server for operators only: channelz and reflection.
#pragma once

#include <grpcpp/server.h>

#include <memory>
#include <string>

#include "core/base/status.h"
#include "server/auxiliary/reflection_service.h"
#include "server/calls/event_loop.h"
#include "server/grpc_workarounds/acceptor.h"
#include "server/telemetry/rpc_metrics.h"

namespace topk {

/// A gRPC server with channelz, which reports every connection and call of this
/// process, and reflection; plain text, until it is destroyed.
class AdminServer {
 public:
  /// Serves at host:port (port 0 = any free one). UNAVAILABLE, naming the
  /// address, if it cannot be bound. The metrics outlive it.
  static Result<std::unique_ptr<AdminServer>> Start(const std::string& address,
                                                    const RpcMetrics& metrics);
  ~AdminServer();

  /// The bound host:port.
  const std::string& address() const { return acceptor_.addresses().front(); }

 private:
  explicit AdminServer(const RpcMetrics& metrics);

  ReflectionService reflection_;
  std::unique_ptr<grpc::Server> grpc_;
  Acceptor acceptor_{SideConnectionOptions(), ConnectionReplacement::Default()};
  std::unique_ptr<EventLoop> loop_;
};

}  // namespace topk
