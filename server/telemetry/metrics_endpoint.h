// Serves metrics over HTTP.
#pragma once

#include <prometheus/exposer.h>

#include <memory>
#include <string>

#include "core/base/status.h"
#include "server/telemetry/metric_registry.h"

namespace topk {

/// Serves /metrics in Prometheus's text format over HTTP until destroyed.
class MetricsEndpoint {
 public:
  /// Serves the metrics of a registry at host:port. Port 0 picks a free port.
  /// Returns UNAVAILABLE with the address in the message if binding fails.
  static Result<std::unique_ptr<MetricsEndpoint>> Start(
      const std::string& address, std::shared_ptr<MetricRegistry> metrics);
  ~MetricsEndpoint();

  /// The bound host:port.
  const std::string& address() const { return address_; }

 private:
  MetricsEndpoint(const std::string& address,
                  std::shared_ptr<MetricRegistry> metrics);

  const std::shared_ptr<MetricRegistry> metrics_;
  std::unique_ptr<prometheus::Exposer> exposer_;
  const std::string address_;
};

}  // namespace topk
