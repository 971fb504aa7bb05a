// The grpc_server_* metrics, for every call of every service.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/histogram.h>

#include <array>
#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "server/telemetry/metric_registry.h"

namespace topk {

/// Counts calls and messages and measures latencies. The metrics have the names
/// and labels of go-grpc-prometheus: grpc_server_started_total,
/// grpc_server_handled_total, grpc_server_msg_received_total,
/// grpc_server_msg_sent_total and grpc_server_handling_seconds. Thread-safe.
class RpcMetrics {
 public:
  /// The series of one method.
  struct Method {
    prometheus::Counter* started;
    prometheus::Counter* received;
    prometheus::Counter* sent;
    prometheus::Histogram* seconds;
    std::array<prometheus::Counter*, 17> handled;  // by grpc::StatusCode
  };

  /// Creates series for each method of the named services, whose descriptors
  /// must be linked in. All other methods share the series of "unknown",
  /// because clients can make up any number of method names.
  RpcMetrics(MetricRegistry& registry,
             const std::vector<std::string>& services);

  /// Returns the metrics of a method. `path` is e.g. "/package.Service/Method".
  const Method& Find(std::string_view path) const;

 private:
  std::map<std::string, Method, std::less<>> methods_;  // by path
  Method unknown_;
};

/// Counts one call, which starts when this object is constructed.
class RpcCount {
 public:
  explicit RpcCount(const RpcMetrics::Method& method) : method_(method) {
    method_.started->Increment();
  }

  std::chrono::steady_clock::time_point start() const { return start_; }

  /// Counts a message received from the client, or sent to the client.
  void Received() const { method_.received->Increment(); }
  void Sent() const { method_.sent->Increment(); }
  /// Counts the call's status. Call once, when the status is sent.
  void Handled(int code) const;

 private:
  const RpcMetrics::Method& method_;
  const std::chrono::steady_clock::time_point start_ =
      std::chrono::steady_clock::now();
};

}  // namespace topk
