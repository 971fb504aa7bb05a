// The grpc_server_* metrics, for every call of every service.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/histogram.h>

#include <array>
#include <chrono>
#include <string>

#include "server/telemetry/metric_registry.h"
#include "topk/status.h"

namespace topk {

/// Counts the calls and messages of one method and measures latencies. The
/// metrics have the names and labels of go-grpc-prometheus:
/// grpc_server_started_total, grpc_server_handled_total,
/// grpc_server_msg_received_total, grpc_server_msg_sent_total and
/// grpc_server_handling_seconds. Thread-safe.
class RpcMetrics {
 public:
  /// Creates the series of the method at `path`, e.g.
  /// "/package.Service/Method", whose descriptor must be linked in. All methods
  /// that the server does not implement share the series of "", because clients
  /// can make up any number of method names.
  RpcMetrics(MetricRegistry& registry, const std::string& path);

  void CountStarted() const { started_.Increment(); }
  /// Counts a message received from the client, or sent to the client.
  void CountReceived() const { received_.Increment(); }
  void CountSent() const { sent_.Increment(); }
  /// Counts the status of a call that arrived at `start`. Call once, when the
  /// status is sent.
  void CountHandled(Code code,
                    std::chrono::steady_clock::time_point start) const;

 private:
  RpcMetrics(MetricRegistry& registry, prometheus::Labels labels);

  prometheus::Counter& started_;
  prometheus::Counter& received_;
  prometheus::Counter& sent_;
  prometheus::Histogram& seconds_;
  std::array<prometheus::Counter*, 17> handled_;  // by grpc::StatusCode
};

}  // namespace topk
