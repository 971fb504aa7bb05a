// W3C Trace Context: the trace that a call belongs to.
// https://www.w3.org/TR/trace-context/
#pragma once

#include <grpcpp/server_context.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace topk {

/// A call's place in its trace.
struct TraceContext {
  /// The two halves of the trace's id. At most one of the halves is 0.
  uint64_t trace_high = 0;
  uint64_t trace_low = 0;
  /// The server's own span.
  uint64_t span = 0;
  /// The caller's span; 0 if the trace begins here.
  uint64_t parent = 0;
  /// Whether the caller records the trace.
  bool sampled = false;
  /// The caller's tracestate, as it was sent.
  std::string state;
};

/// Parses a traceparent header: the trace ID, the parent ID and the sampled
/// flag. Accepts version 00, and the first four fields of higher versions.
/// Returns nullopt if the header is invalid. In this case, the caller must
/// ignore the tracestate too.
std::optional<TraceContext> ParseTraceParent(std::string_view text);

/// Maximum size of a tracestate. A longer tracestate, or one with bytes other
/// than printable ASCII and tabs, is dropped as a whole.
inline constexpr size_t kMaxTraceState = 512;

/// Continues the trace of `traceparent` if it is valid, otherwise begins a new
/// trace. The result has a new span.
TraceContext ContinueTrace(std::string_view traceparent,
                           std::string_view tracestate);

/// Like ContinueTrace(), for the headers of a call. Ignores a header that
/// occurs more than once.
TraceContext TraceOf(const grpc::ServerContext& context);

/// Returns a random number that is not 0.
uint64_t NewTraceId();

/// Returns a traceparent header that names `trace.span` as the parent.
std::string ToTraceParent(const TraceContext& trace);

/// Return an id in lower-case hex: 32 digits for a trace, 16 for a span.
std::string TraceId(const TraceContext& trace);
std::string SpanId(uint64_t span);

/// Where spans are sent, and which calls have a span.
struct TraceConfig {
  /// The collector: http://host:port or https://host:port. "" disables export.
  std::string endpoint;
  /// Whether calls with a traceparent follow the caller's sampling decision.
  bool follow_parent = true;
  /// The fraction of traces to sample, 0 to 1, if the caller does not decide.
  double ratio = 1;
  /// The resource's attributes, e.g. service.name.
  std::map<std::string, std::string> resource;
  /// The environment variables that were ignored, and why.
  std::vector<std::string> warnings;
};

}  // namespace topk
