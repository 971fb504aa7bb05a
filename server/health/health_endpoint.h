// Health alone, for probes that have neither certificates nor tokens.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "server/auxiliary/side_server.h"
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

  /// The bound host:port.
  const std::string& address() const { return server_.address; }

 private:
  HealthEndpoint(std::unique_ptr<HealthService> health, SideServer server)
      : health_(std::move(health)), server_(std::move(server)) {}

  const std::unique_ptr<HealthService> health_;
  const SideServer server_;
};

}  // namespace topk
