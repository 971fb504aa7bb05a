// Health alone, for probes that have neither certificates nor tokens.
#pragma once

#include <memory>
#include <string>

#include "core/base/status.h"
#include "server/auxiliary/side_server.h"
#include "server/health/health_service.h"
#include "server/telemetry/rpc_metrics.h"

namespace topk {

/// Starts a plaintext server of grpc.health.v1 and nothing else at host:port
/// (port 0 = any free one). Takes two threads. UNAVAILABLE, naming the address,
/// if it cannot be bound. The others outlive it.
Result<std::unique_ptr<SideServer>> StartHealthEndpoint(
    const std::string& address, HealthState& state, const RpcMetrics& metrics);

}  // namespace topk
