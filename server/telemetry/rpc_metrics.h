// The grpc_server_* metrics that dashboards know, for every call of every
// service of the server.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/telemetry/metric_registry.h"

namespace topk {

/// Counts calls and messages and observes latencies in a registry, with the
/// names and labels of go-grpc-prometheus: grpc_server_started_total,
/// grpc_server_handled_total, grpc_server_msg_received_total,
/// grpc_server_msg_sent_total and grpc_server_handling_seconds. Thread-safe.
class RpcMetrics {
 public:
  /// One method's series.
  struct Method;

  /// The methods of the named services, whose descriptors must be linked in,
  /// have their own series, from zero; all others, which anyone can make up,
  /// are counted together as "unknown".
  RpcMetrics(MetricRegistry& registry,
             const std::vector<std::string>& services);
  ~RpcMetrics();

  /// Returns the series of a method: "/package.Service/Method".
  const Method& Find(std::string_view path) const;

 private:
  class Table;
  const std::unique_ptr<const Table> table_;
};

/// Counts one call, from now on.
class RpcCount {
 public:
  explicit RpcCount(const RpcMetrics::Method& method);

  /// When it began.
  std::chrono::steady_clock::time_point start() const { return start_; }

  /// A message has come, or goes.
  void Received() const;
  void Sent() const;
  /// Counts the call's status when the status is sent. Call this once.
  void Handled(int code) const;

 private:
  const RpcMetrics::Method& method_;
  const std::chrono::steady_clock::time_point start_;
};

}  // namespace topk
