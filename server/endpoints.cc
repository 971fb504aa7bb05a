#include "server/endpoints.h"

#include <utility>

namespace topk {
namespace {

// Moves an endpoint to its place if it could be started.
template <class Endpoint>
Status Keep(Result<std::unique_ptr<Endpoint>> started,
            std::unique_ptr<Endpoint>& to) {
  if (!started.ok()) return started.status();
  to = *std::move(started);
  return {};
}

}  // namespace

Result<Endpoints> Endpoints::Start(const ServerConfig& config,
                                   Services& services) {
  Endpoints all;
  Status status;
  if (!config.metrics_listen.empty()) {
    status = Keep(MetricsEndpoint::Start(config.metrics_listen,
                                         services.metrics().registry()),
                  all.metrics_);
  }
  if (status.ok() && !config.health_listen.empty()) {
    status = Keep(
        HealthEndpoint::Start(config.health_listen, services.health_state(),
                              services.rpc_metrics()),
        all.health_);
  }
  if (status.ok() && !config.admin_listen.empty()) {
    status =
        Keep(AdminServer::Start(config.admin_listen, services.rpc_metrics()),
             all.admin_);
  }
  if (!status.ok()) return status;
  return all;
}

}  // namespace topk
