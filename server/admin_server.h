// The gRPC server for operators only: channelz and reflection.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "server/auxiliary/reflection_service.h"
#include "server/auxiliary/side_server.h"
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

  /// The bound host:port.
  const std::string& address() const { return server_.address; }

 private:
  AdminServer(std::unique_ptr<ReflectionService> reflection, SideServer server)
      : reflection_(std::move(reflection)), server_(std::move(server)) {}

  const std::unique_ptr<ReflectionService> reflection_;
  const SideServer server_;
};

}  // namespace topk
