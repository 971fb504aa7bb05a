// The span of one sampled call.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string_view>

#include "server/admission/call_info.h"
#include "server/telemetry/request_stats.h"
#include "server/telemetry/span_exporter.h"
#include "server/telemetry/trace_context.h"
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
  using Clock = RequestStats::Clock;
  using Span = SpanExporter::Span;
  using Spans = SpanExporter::Spans;

  uint64_t UnixNanoseconds(Clock::time_point time) const;
  Span& Append(Spans& spans, uint64_t id, uint64_t parent,
               std::string_view name, Clock::time_point start,
               Clock::time_point end) const;
  void AddProperties(Spans& spans, uint64_t id, const v1::TopKRequest& request,
                     const RequestStats& stats) const;

  SpanExporter& exporter_;
  const bool many_;
  const TraceContext trace_;
  // The Unix time minus the time of Clock.
  const std::chrono::nanoseconds clock_offset_ =
      std::chrono::system_clock::now().time_since_epoch() -
      Clock::now().time_since_epoch();
  std::atomic<int64_t> requests_ = 0;
  Spans spans_;  // of the call
};

}  // namespace topk
