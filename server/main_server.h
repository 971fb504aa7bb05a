// The gRPC server of the --listen addresses.
#pragma once

#include <spdlog/logger.h>

#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "server/calls/grpc_server.h"
#include "server/config/config.h"
#include "server/security/server_tls.h"
#include "server/services.h"

namespace topk {

/// The main server, from its start until it is destroyed.
struct MainServer {
  std::unique_ptr<GrpcServer> grpc;
  /// The bound addresses: host:port with the real port, or unix:path.
  std::vector<std::string> addresses;
};

/// Binds the addresses and serves the services. An address that cannot be bound
/// is an error that names it. `tls`, `services` and `log` must outlive the
/// server. Without `tls` (null) the server uses plain text.
Result<MainServer> StartMainServer(const ServerConfig& config, ServerTls* tls,
                                   Services& services, spdlog::logger& log);

}  // namespace topk
