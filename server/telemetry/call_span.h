// The span of one sampled call.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "server/telemetry/access_log.h"
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

  /// Returns the span of a call, or null if the call is not sampled. `many` is
  /// true if the call may have many requests. `exporter` must outlive the
  /// result; a null `exporter` samples no call.
  static std::unique_ptr<CallSpan> Start(SpanExporter* exporter,
                                         std::string_view path,
                                         const CallInfo& call, bool many) {
    if (exporter == nullptr || !exporter->Samples(call.trace)) return nullptr;
    return std::make_unique<CallSpan>(*exporter, path, call, many);
  }

  /// See Start().
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
  using Span = SpanExporter::Span;
  using Clock = RequestStats::Clock;

  uint64_t UnixNanoseconds(Clock::time_point time) const;
  Span MakeSpan(std::string_view name, uint64_t id, uint64_t parent,
                Clock::time_point start, Clock::time_point end) const;
  // Adds a request's properties to a span, and the spans of its stages to `to`.
  void AddProperties(const v1::TopKRequest& request, const RequestStats& stats,
                     uint64_t id, std::vector<Span>& to) const;

  SpanExporter& exporter_;
  const bool many_;
  const TraceContext trace_;
  // Clock + clock_offset_ is Unix time.
  const std::chrono::nanoseconds clock_offset_;
  std::atomic<int64_t> requests_ = 0;
  std::vector<Span> spans_;  // of the call and, unless many_, of its stages
};

}  // namespace topk
