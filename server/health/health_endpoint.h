// Health alone, for probes that have neither certificates nor tokens.
#pragma once

#include <grpcpp/server.h>

#include <memory>
#include <optional>
#include <string>

#include "core/base/status.h"
#include "server/calls/event_loop.h"
#include "server/health/health_service.h"
#include "server/telemetry/rpc_metrics.h"
#include "server/transport/accept_guard.h"

namespace topk {

/// A plaintext server of grpc.health.v1 and nothing else, until it is
/// destroyed. Takes a thread.
class HealthEndpoint {
 public:
  /// Serves at host:port (port 0 = any free one). UNAVAILABLE, naming the
  /// address, if it cannot be bound. The others outlive it.
  static Result<std::unique_ptr<HealthEndpoint>> Start(
      const std::string& address, HealthState& state,
      const RpcMetrics& metrics);
  ~HealthEndpoint();

  /// The bound host:port.
  const std::string& address() const { return address_; }

 private:
  HealthEndpoint(HealthState& state, const RpcMetrics& metrics)
      : health_(state, metrics) {}

  HealthService health_;
  std::unique_ptr<grpc::Server> grpc_;
  std::optional<ConnectionLimit> connections_;
  std::unique_ptr<EventLoop> loop_;
  std::string address_;
};

}  // namespace topk
