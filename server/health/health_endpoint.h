// Health alone, for probes that have neither certificates nor tokens.
#pragma once

#include <grpcpp/server.h>

#include <memory>
#include <string>

#include "core/base/status.h"
#include "server/calls/event_loop.h"
#include "server/grpc_workarounds/acceptor.h"
#include "server/health/health_service.h"
#include "server/telemetry/rpc_metrics.h"

namespace topk {

/// A plaintext server of grpc.health.v1 and nothing else, until it is
/// destroyed. Takes two threads.
class HealthEndpoint {
 public:
  /// Serves at host:port (port 0 = any free one). UNAVAILABLE, naming the
  /// address, if it cannot be bound. The others outlive it.
  static Result<std::unique_ptr<HealthEndpoint>> Start(
      const std::string& address, HealthState& state,
      const RpcMetrics& metrics);
  ~HealthEndpoint();

  /// The bound host:port.
  const std::string& address() const { return acceptor_.addresses().front(); }

 private:
  HealthEndpoint(HealthState& state, const RpcMetrics& metrics)
      : health_(state, metrics) {}

  HealthService health_;
  std::unique_ptr<grpc::Server> grpc_;
  Acceptor acceptor_{SideConnectionOptions(), ConnectionReplacement::Default()};
  std::unique_ptr<EventLoop> loop_;
};

}  // namespace topk
