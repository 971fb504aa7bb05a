// W3C Trace Context: which trace a call is a part of.
// https://www.w3.org/TR/trace-context/
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace topk {

/// The fields of a traceparent header.
struct TraceParent {
  /// The trace's id; not both 0.
  uint64_t trace_high = 0;
  uint64_t trace_low = 0;
  /// The caller's span; not 0.
  uint64_t span = 0;
  /// Whether the caller records it.
  bool sampled = false;
};

/// Reads a traceparent: of version 00 as it stands in the text, of a higher one
/// its first four fields. Nothing if it is not valid; it is to be ignored then,
/// with its tracestate.
std::optional<TraceParent> ParseTraceParent(std::string_view text);

/// A call's place in its trace.
struct TraceContext {
  uint64_t trace_high = 0;
  uint64_t trace_low = 0;
  /// Our own span.
  uint64_t span = 0;
  /// The caller's span; 0 if the trace begins here.
  uint64_t parent = 0;
  /// Whether the caller records the trace.
  bool sampled = false;
  /// The caller's tracestate, as it was sent.
  std::string state;
};

/// The longest tracestate that is kept. A longer one is dropped whole, and so
/// is one with bytes that are not printable ASCII.
inline constexpr size_t kMaxTraceState = 512;

/// Continues the trace of a valid traceparent, else begins one. Always with a
/// span of our own.
TraceContext ContinueTrace(std::string_view traceparent,
                           std::string_view tracestate);

/// Returns a random id that is not 0.
uint64_t NewTraceId();

/// Returns the traceparent for whatever comes after our span.
std::string ToTraceParent(const TraceContext& trace);

/// Returns an id in lower-case hex: 32 digits of a trace, 16 of a span.
std::string TraceId(uint64_t trace_high, uint64_t trace_low);
inline std::string TraceId(const TraceContext& trace) {
  return TraceId(trace.trace_high, trace.trace_low);
}
std::string SpanId(uint64_t span);

}  // namespace topk
