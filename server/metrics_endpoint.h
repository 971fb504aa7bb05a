// Serves metrics over HTTP.
#pragma once

#include <spdlog/logger.h>

#include <memory>
#include <string>

#include "server/grpc_workarounds/acceptor.h"
#include "server/telemetry/metric_registry.h"
#include "topk/status.h"

struct MHD_Daemon;

namespace topk {

/// Serves /metrics in Prometheus's text format over HTTP until destroyed. Each
/// connection serves one request, and ends if it is inactive for 10 s. Replaces
/// the endpoint of prometheus-cpp, whose HTTP library has no IPv6 in Debian.
class MetricsEndpoint {
 public:
  /// Serves the metrics of a registry at host:port. Port 0 picks a free port.
  /// Returns UNAVAILABLE with the address in the message if binding fails, and
  /// RESOURCE_EXHAUSTED if there are too few threads or file descriptors. `log`
  /// must outlive the result.
  static Result<std::unique_ptr<MetricsEndpoint>> Start(
      const std::string& address, std::shared_ptr<MetricRegistry> metrics,
      spdlog::logger& log);
  ~MetricsEndpoint();

  /// The bound host:port.
  const std::string& address() const { return acceptor_.addresses().front(); }

 private:
  MetricsEndpoint(std::shared_ptr<MetricRegistry> metrics, spdlog::logger& log);

  const std::shared_ptr<MetricRegistry> metrics_;
  MHD_Daemon* daemon_ = nullptr;  // reads requests on its own thread
  Acceptor acceptor_;             // passes connections to daemon_
};

}  // namespace topk
