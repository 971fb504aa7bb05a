// The listeners next to the main one: metrics, health and channelz.
#pragma once

#include <memory>
#include <string>

#include "core/base/status.h"
#include "server/admin_server.h"
#include "server/config/config.h"
#include "server/health/health_endpoint.h"
#include "server/services.h"
#include "server/telemetry/metrics_endpoint.h"

namespace topk {

/// Those that the settings ask for, open until it is destroyed.
class Endpoints {
 public:
  /// Binds the addresses and serves. UNAVAILABLE, naming the address, if one
  /// cannot be bound. The services outlive the endpoints.
  static Result<Endpoints> Start(const ServerConfig& config,
                                 Services& services);

  /// The bound addresses, or "".
  std::string metrics_address() const { return AddressOf(metrics_); }
  std::string health_address() const { return AddressOf(health_); }
  std::string admin_address() const { return AddressOf(admin_); }

 private:
  template <class Endpoint>
  static std::string AddressOf(const std::unique_ptr<Endpoint>& endpoint) {
    return endpoint == nullptr ? "" : endpoint->address();
  }

  std::unique_ptr<AdminServer> admin_;
  std::unique_ptr<MetricsEndpoint> metrics_;
  std::unique_ptr<HealthEndpoint> health_;
};

}  // namespace topk
