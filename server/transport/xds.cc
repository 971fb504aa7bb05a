#include "server/transport/xds.h"

#include <grpc/grpc.h>

#include <cstdlib>
#include <utility>

#include "core/base/text.h"
#include "core/security/local_address.h"
#include "proto/library_versions.h"

namespace topk {
namespace {

// gRPC's own variables: a file's name, and the JSON itself.
constexpr char kBootstrapFile[] = "GRPC_XDS_BOOTSTRAP";
constexpr char kBootstrap[] = "GRPC_XDS_BOOTSTRAP_CONFIG";

bool IsSet(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

Status WrongXds(const std::string& message) {
  return InvalidArgument("XDS", "xds", StrCat("--xds: ", message));
}

// Whether gRPC can make of the bootstrap what a server needs.
bool IsUsable() {
  grpc_init();
  grpc_server_config_fetcher* fetcher =
      grpc_server_config_fetcher_xds_create({}, nullptr);
  if (fetcher != nullptr) ReleaseFetcher(fetcher);
  grpc_shutdown();
  return fetcher != nullptr;
}

}  // namespace

Status CheckXds(const std::vector<std::string>& listen,
                const ConnectionOptions& connections) {
  for (const auto& [flag, max] :
       {std::pair("--max-connections", connections.max_connections),
        std::pair("--max-connections-per-client",
                  connections.max_connections_per_client)}) {
    if (max > 0) {
      return WrongXds(
          StrCat("gRPC's listeners have no limit of connections: "
                 "omit ",
                 flag, " ", max));
    }
  }
  for (const std::string& address : listen) {
    if (IsUnixAddress(address)) {
      return WrongXds(StrCat(
          "a control plane supports host:port only, not --listen ", address));
    }
  }
  if (!IsSet(kBootstrapFile) && !IsSet(kBootstrap)) {
    return WrongXds(StrCat("no control plane is configured: set ",
                           kBootstrapFile, " to a bootstrap file, or ",
                           kBootstrap, " to its content"));
  }
  if (!IsUsable()) {
    return WrongXds(StrCat(
        "gRPC cannot use the bootstrap that ",
        IsSet(kBootstrapFile) ? kBootstrapFile : kBootstrap,
        " names or has; it must be JSON with xds_servers, node and "
        "server_listener_resource_name_template. gRPC's error is in the log"));
  }
  return {};
}

void XdsStatusLog::OnServingStatusUpdate(std::string uri,
                                         ServingStatusUpdate update) {
  if (update.status.ok()) {
    log_.info("xDS: serving on {}", uri);
  } else {
    log_.warn("xDS: not serving on {}: {}", uri, update.status.error_message());
  }
}

}  // namespace topk
