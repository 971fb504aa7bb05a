#include "server/telemetry/trace_context.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>
#include <random>

#include "core/base/text.h"

namespace topk {
namespace {

constexpr size_t kLength = 55;  // vv-<32 of the trace>-<16 of the span>-ff

// Parses hexadecimal digits.
std::optional<uint64_t> ParseHex(std::string_view text) {
  uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value, 16);
  if (error != std::errc() || rest != end) return std::nullopt;
  return value;
}

// Returns whether a tracestate is printable and not too long. gRPC accepts any
// bytes, but collectors reject messages with text that is not UTF-8.
bool IsTraceState(std::string_view text) {
  return text.size() <= kMaxTraceState && std::ranges::all_of(text, [](char c) {
           return (c >= ' ' && c <= '~') || c == '\t';
         });
}

}  // namespace

uint64_t NewTraceId() {
  // Seed from the system, because ids must differ between processes.
  thread_local std::mt19937_64 random([] {
    std::random_device device;
    return uint64_t{device()} << 32 | device();
  }());
  uint64_t id = 0;
  while (id == 0) id = random();
  return id;
}

std::optional<TraceContext> ParseTraceParent(std::string_view text) {
  // Upper-case digits are invalid.
  if (text.size() < kLength || text[2] != '-' || text[35] != '-' ||
      text[52] != '-' ||
      text.substr(0, kLength).find_first_of("ABCDEF") != text.npos) {
    return std::nullopt;
  }
  const auto version = ParseHex(text.substr(0, 2));
  const auto high = ParseHex(text.substr(3, 16));
  const auto low = ParseHex(text.substr(19, 16));
  const auto parent = ParseHex(text.substr(36, 16));
  const auto flags = ParseHex(text.substr(53, 2));
  if (!version || !high || !low || !parent || !flags) return std::nullopt;
  if (*version == 0xff || (*high | *low) == 0 || *parent == 0) {
    return std::nullopt;
  }
  // Version 00 of the header has no more fields. Higher versions may have more.
  if (text.size() > kLength && (*version == 0 || text[kLength] != '-')) {
    return std::nullopt;
  }
  return TraceContext{*high, *low, 0, *parent, (*flags & 1) != 0, ""};
}

TraceContext ContinueTrace(std::string_view traceparent,
                           std::string_view tracestate) {
  std::optional<TraceContext> trace = ParseTraceParent(traceparent);
  if (!trace.has_value()) {
    trace = {NewTraceId(), NewTraceId(), 0, 0, false, ""};
  } else if (IsTraceState(tracestate)) {
    trace->state = tracestate;
  }
  trace->span = NewTraceId();
  return *std::move(trace);
}

TraceContext TraceOf(const grpc::ServerContext& context) {
  const auto header = [&context](const char* name) -> std::string_view {
    const auto [first, last] = context.client_metadata().equal_range(name);
    if (first == last || std::next(first) != last) return "";
    return {first->second.data(), first->second.size()};
  };
  return ContinueTrace(header("traceparent"), header("tracestate"));
}

std::string ToTraceParent(const TraceContext& trace) {
  return StrCat("00-", TraceId(trace), "-", SpanId(trace.span),
                trace.sampled ? "-01" : "-00");
}

std::string TraceId(const TraceContext& trace) {
  return SpanId(trace.trace_high) + SpanId(trace.trace_low);
}

std::string SpanId(uint64_t span) { return fmt::format("{:016x}", span); }

}  // namespace topk
