// Small gRPC servers next to the main one: for probes and for operators.
#pragma once

#include <memory>
#include <string>

#include "core/base/status.h"
#include "server/calls/grpc_server.h"
#include "server/health/health_service.h"
#include "server/telemetry/rpc_metrics.h"

namespace topk {

/// A plaintext server with one poller and a limit of connections, from its
/// start until it is destroyed.
struct SideServer {
  /// Health, and its methods; null if the server does not serve them.
  std::unique_ptr<HealthService> health;
  std::unique_ptr<CallRouter> router;
  std::unique_ptr<GrpcServer> grpc;
  /// The bound host:port.
  std::string address;
};

/// Starts a server of grpc.health.v1 and nothing else at host:port (port 0 =
/// any free one), for probes that have neither certificates nor tokens.
/// UNAVAILABLE, naming the address, if it cannot be bound. `state` and
/// `metrics` outlive the server.
Result<std::unique_ptr<SideServer>> StartHealthServer(
    const std::string& address, HealthState& state, const RpcMetrics& metrics);

/// Likewise starts a server of channelz, which reports every connection and
/// call of this process, and of gRPC's reflection, which lists channelz and
/// describes every message and service of this process. At most 8 of its calls
/// and reflection streams are served at a time.
Result<std::unique_ptr<SideServer>> StartAdminServer(
    const std::string& address);

}  // namespace topk
