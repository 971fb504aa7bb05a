// Serves metrics over HTTP.
#pragma once

#include <spdlog/logger.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/status.h"
#include "server/grpc_workarounds/acceptor.h"
#include "server/telemetry/metric_registry.h"

namespace topk {

/// Serves /metrics in Prometheus's text format over HTTP until destroyed. Each
/// connection serves one request, which must arrive within 5 s. Replaces the
/// endpoint of prometheus-cpp, whose HTTP library has no IPv6 in Debian.
class MetricsEndpoint {
 public:
  /// Serves the metrics of a registry at host:port. Port 0 picks a free port.
  /// Returns UNAVAILABLE with the address in the message if binding fails.
  /// `log` must outlive the result.
  static Result<std::unique_ptr<MetricsEndpoint>> Start(
      const std::string& address, std::shared_ptr<MetricRegistry> metrics,
      spdlog::logger& log);
  ~MetricsEndpoint();

  /// The bound host:port.
  const std::string& address() const { return acceptor_.addresses().front(); }

 private:
  class Connection;

  MetricsEndpoint(std::shared_ptr<MetricRegistry> metrics, spdlog::logger& log);

  void Run();
  std::string Respond(const std::string& request) const;

  const std::shared_ptr<MetricRegistry> metrics_;
  const int wake_;  // eventfd, readable after a change of the members below
  std::atomic<bool> stop_ = false;
  Mutex mutex_;
  std::vector<int> accepted_ TOPK_GUARDED_BY(mutex_);
  std::thread thread_;
  Acceptor acceptor_;  // last, because its thread uses the other members
};

}  // namespace topk
