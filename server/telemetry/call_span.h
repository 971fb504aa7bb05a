// The span of one sampled call.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "core/base/status.h"
#include "server/telemetry/access_log.h"
#include "server/telemetry/request_stats.h"
#include "server/telemetry/span_exporter.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// Describes a call for the exporter, with the attributes of OpenTelemetry's
/// semantic conventions for RPC servers and those of its request.
class CallSpan {
 public:
  /// At most this many requests of a call with many have spans of their own.
  static constexpr int64_t kMaxRequests = 128;

  /// The exporter outlives it. `path` is the method's.
  CallSpan(SpanExporter& exporter, std::string_view path, const CallInfo& call,
           bool many);

  /// Adds a finished request. If the call has many, the request has its own
  /// span, and any thread may add it; otherwise its attributes and stages are
  /// the call's.
  void AddRequest(const v1::TopKRequest& request, const RequestStats& stats,
                  const Status& status);

  /// Ends the call and exports the span. Once.
  void End(const Status& status);

 private:
  SpanExporter& exporter_;
  const bool many_;
  std::atomic<int64_t> requests_ = 0;
  Span span_;
};

}  // namespace topk
