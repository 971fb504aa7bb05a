#include "server/telemetry/trace_context.h"

#include <algorithm>
#include <random>

#include "core/base/text.h"

namespace topk {
namespace {

constexpr size_t kLength = 55;  // vv-<32 of the trace>-<16 of the span>-ff

// Reads digits of lower-case hex, at most 16.
std::optional<uint64_t> Hex(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  uint64_t value = 0;
  for (const char c : text) {
    const size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    value = value << 4 | digit;
  }
  return value;
}

// Whether a tracestate may be kept. gRPC receives any bytes, but one that is
// not UTF-8 would make a collector reject the spans of all calls in a message.
bool IsTraceState(std::string_view text) {
  return text.size() <= kMaxTraceState &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= ' ' && c <= '~') || c == '\t';
         });
}

}  // namespace

// Unlike ids in one process, the seeds of many must differ: they are the
// system's.
uint64_t NewTraceId() {
  thread_local std::mt19937_64 random([] {
    std::random_device device;
    return uint64_t{device()} << 32 | device();
  }());
  uint64_t id = 0;
  while (id == 0) id = random();
  return id;
}

std::optional<TraceParent> ParseTraceParent(std::string_view text) {
  if (text.size() < kLength || text[2] != '-' || text[35] != '-' ||
      text[52] != '-') {
    return std::nullopt;
  }
  const auto version = Hex(text.substr(0, 2));
  const auto high = Hex(text.substr(3, 16));
  const auto low = Hex(text.substr(19, 16));
  const auto span = Hex(text.substr(36, 16));
  const auto flags = Hex(text.substr(53, 2));
  if (!version || !high || !low || !span || !flags) return std::nullopt;
  if (*version == 0xff || (*high == 0 && *low == 0) || *span == 0) {
    return std::nullopt;
  }
  // Version 00 ends here; a higher one may go on, with another field.
  if (text.size() > kLength && (*version == 0 || text[kLength] != '-')) {
    return std::nullopt;
  }
  return TraceParent{*high, *low, *span, (*flags & 1) != 0};
}

TraceContext ContinueTrace(std::string_view traceparent,
                           std::string_view tracestate) {
  TraceContext trace;
  if (const auto parent = ParseTraceParent(traceparent); parent.has_value()) {
    trace.trace_high = parent->trace_high;
    trace.trace_low = parent->trace_low;
    trace.parent = parent->span;
    trace.sampled = parent->sampled;
    if (IsTraceState(tracestate)) trace.state = tracestate;
  } else {
    trace.trace_high = NewTraceId();
    trace.trace_low = NewTraceId();
  }
  trace.span = NewTraceId();
  return trace;
}

std::string ToTraceParent(const TraceContext& trace) {
  return StrCat("00-", TraceId(trace), "-", SpanId(trace.span),
                trace.sampled ? "-01" : "-00");
}

std::string TraceId(uint64_t trace_high, uint64_t trace_low) {
  return SpanId(trace_high) + SpanId(trace_low);
}

std::string SpanId(uint64_t span) {
  std::string text;
  for (int shift = 56; shift >= 0; shift -= 8) {
    text += HexOf(static_cast<unsigned char>(span >> shift));
  }
  return text;
}

}  // namespace topk
