// Listeners that an xDS control plane rules.
#pragma once

#include <grpcpp/xds_server_builder.h>
#include <spdlog/logger.h>

#include <string>
#include <vector>

#include "core/base/status.h"
#include "server/transport/connection_options.h"

namespace topk {

/// OK if these addresses can be served as a control plane says, or why not: no
/// bootstrap in the environment, one that gRPC cannot use, a Unix socket, or a
/// limit of connections, which gRPC's listeners do not have.
/// Without that gRPC would serve with no control plane at all.
Status CheckXds(const std::vector<std::string>& listen,
                const ConnectionOptions& connections);

/// Logs, for each address, whether the control plane lets it serve.
class XdsStatusLog final
    : public grpc::XdsServerServingStatusNotifierInterface {
 public:
  /// The logger outlives it, and it the server.
  explicit XdsStatusLog(spdlog::logger& log) : log_(log) {}

  void OnServingStatusUpdate(std::string uri,
                             ServingStatusUpdate update) override;

 private:
  spdlog::logger& log_;
};

}  // namespace topk
