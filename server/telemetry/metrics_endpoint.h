// Metrics over HTTP.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "server/telemetry/metric_registry.h"

struct mg_connection;
struct mg_context;

namespace topk {

/// An HTTP endpoint for /metrics, open until it is destroyed. It answers in
/// OpenMetrics if the scraper prefers that, else in Prometheus's text format.
class MetricsEndpoint {
 public:
  /// Serves what is collected at host:port (port 0 = any free one).
  /// UNAVAILABLE, naming the address, if it cannot be bound.
  static Result<std::unique_ptr<MetricsEndpoint>> Start(
      const std::string& address,
      std::shared_ptr<const MetricRegistry> metrics);
  ~MetricsEndpoint();

  /// The bound host:port.
  const std::string& address() const { return address_; }

 private:
  MetricsEndpoint(std::shared_ptr<const MetricRegistry> metrics,
                  mg_context* server, std::string address)
      : metrics_(std::move(metrics)),
        server_(server),
        address_(std::move(address)) {}

  static int Answer(mg_connection* connection, void* metrics);

  const std::shared_ptr<const MetricRegistry> metrics_;
  mg_context* const server_;
  const std::string address_;
};

}  // namespace topk
