// The gRPC server for operators only: channelz and reflection.
#pragma once

#include <memory>
#include <string>

#include "core/base/status.h"
#include "server/auxiliary/side_server.h"
#include "server/telemetry/rpc_metrics.h"

namespace topk {

/// Starts a plaintext server at host:port (port 0 = any free one) with
/// channelz, which reports every connection and call of this process, and
/// reflection. UNAVAILABLE, naming the address, if it cannot be bound. The
/// metrics outlive it.
Result<std::unique_ptr<SideServer>> StartAdminServer(const std::string& address,
                                                     const RpcMetrics& metrics);

}  // namespace topk
