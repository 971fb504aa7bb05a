// The span of one sampled call.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "server/admission/call_info.h"
#include "server/telemetry/request_stats.h"
#include "server/telemetry/span_exporter.h"
#include "topk/status.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// Builds the span of a call. The attributes follow OpenTelemetry's semantic
/// conventions for RPC servers, and include the properties of the request.
class CallSpan {
 public:
  /// Maximum number of request spans that are exported for a call.
  static constexpr int64_t kMaxRequests = 128;

  /// Starts the span of a sampled call. `path` is the path of its method.
  /// `many` is true if the call may have many requests. `exporter` must outlive
  /// this object.
  CallSpan(SpanExporter& exporter, std::string_view path, const CallInfo& call,
           bool many);

  /// Adds a finished request to the span of the call. If the call may have many
  /// requests, exports a separate span for the request instead; AddRequest()
  /// may then be called concurrently.
  void AddRequest(const v1::TopKRequest& request, const RequestStats& stats,
                  const Status& status);

  /// Ends the call and exports the span. Call once.
  void End(const Status& status);

 private:
  SpanExporter& exporter_;
  const bool many_;
  std::atomic<int64_t> requests_ = 0;
  Span span_;
};

}  // namespace topk
