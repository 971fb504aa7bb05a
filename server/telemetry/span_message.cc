#include "server/telemetry/span_message.h"

#include <cstdint>

#include "core/base/text.h"

namespace topk {
namespace {

namespace otlp = opentelemetry::proto;
using otlp::collector::trace::v1::ExportTraceServiceRequest;

// Flags of a span: sampled; whether its parent is remote is known; it is.
constexpr uint32_t kSampled = 1;
constexpr uint32_t kRemoteKnown = 0x100;
constexpr uint32_t kRemote = 0x200;

void AppendBytes(uint64_t id, std::string& to) {
  for (int shift = 56; shift >= 0; shift -= 8) {
    to += static_cast<char>(id >> shift & 0xff);
  }
}

std::string IdBytes(uint64_t id) {
  std::string bytes;
  AppendBytes(id, bytes);
  return bytes;
}

std::string TraceIdBytes(const TraceContext& trace) {
  std::string bytes = IdBytes(trace.trace_high);
  AppendBytes(trace.trace_low, bytes);
  return bytes;
}

void SetValue(const Span::Value& value, otlp::common::v1::AnyValue& to) {
  if (const auto* number = std::get_if<int64_t>(&value)) {
    to.set_int_value(*number);
  } else {
    to.set_string_value(std::get<std::string>(value));
  }
}

uint64_t UnixNanoseconds(Span::Clock::time_point time,
                         std::chrono::nanoseconds clock_offset) {
  return static_cast<uint64_t>(
      (std::chrono::nanoseconds(time.time_since_epoch()) + clock_offset)
          .count());
}

void AddStages(const Span& span, std::chrono::nanoseconds clock_offset,
               otlp::trace::v1::ScopeSpans& to) {
  uint64_t end = UnixNanoseconds(span.stages_end, clock_offset);
  for (size_t i = span.stages.size(); i-- > 0;) {
    if (span.stages[i] < 0) continue;
    otlp::trace::v1::Span& stage = *to.add_spans();
    stage.set_trace_id(TraceIdBytes(span.trace));
    stage.set_span_id(IdBytes(NewTraceId()));
    stage.set_parent_span_id(IdBytes(span.trace.span));
    stage.set_trace_state(span.trace.state);
    stage.set_flags(kSampled | kRemoteKnown);
    stage.set_name(kStageNames[i]);
    stage.set_kind(otlp::trace::v1::Span::SPAN_KIND_INTERNAL);
    stage.set_end_time_unix_nano(end);
    end -= static_cast<uint64_t>(span.stages[i]);
    stage.set_start_time_unix_nano(end);
  }
}

void AddSpan(const Span& span, std::chrono::nanoseconds clock_offset,
             otlp::trace::v1::ScopeSpans& spans) {
  otlp::trace::v1::Span& to = *spans.add_spans();
  to.set_trace_id(TraceIdBytes(span.trace));
  to.set_span_id(IdBytes(span.trace.span));
  uint32_t flags = kSampled | kRemoteKnown;
  if (span.trace.parent != 0) {
    to.set_parent_span_id(IdBytes(span.trace.parent));
    if (span.of_call) flags |= kRemote;
  }
  to.set_flags(flags);
  to.set_trace_state(span.trace.state);
  to.set_name(span.name);
  to.set_kind(span.of_call ? otlp::trace::v1::Span::SPAN_KIND_SERVER
                           : otlp::trace::v1::Span::SPAN_KIND_INTERNAL);
  to.set_start_time_unix_nano(UnixNanoseconds(span.start, clock_offset));
  to.set_end_time_unix_nano(UnixNanoseconds(span.end, clock_offset));
  if (span.failed) {
    to.mutable_status()->set_code(otlp::trace::v1::Status::STATUS_CODE_ERROR);
    to.mutable_status()->set_message(span.error);
  }
  for (const auto& [name, value] : span.attributes) {
    otlp::common::v1::KeyValue& attribute = *to.add_attributes();
    attribute.set_key(name);
    SetValue(value, *attribute.mutable_value());
  }
  AddStages(span, clock_offset, spans);
}

}  // namespace

ExportTraceServiceRequest MakeExportRequest(
    const std::map<std::string, std::string>& resource) {
  ExportTraceServiceRequest request;
  otlp::trace::v1::ResourceSpans& spans = *request.add_resource_spans();
  for (const auto& [name, value] : resource) {
    otlp::common::v1::KeyValue& attribute =
        *spans.mutable_resource()->add_attributes();
    attribute.set_key(name);
    attribute.mutable_value()->set_string_value(value);
  }
  spans.add_scope_spans()->mutable_scope()->set_name("topkd");
  return request;
}

void SetSpans(std::span<const Span> spans,
              std::chrono::nanoseconds clock_offset,
              ExportTraceServiceRequest& to) {
  otlp::trace::v1::ScopeSpans& all =
      *to.mutable_resource_spans(0)->mutable_scope_spans(0);
  all.clear_spans();
  for (const Span& span : spans) AddSpan(span, clock_offset, all);
}

}  // namespace topk
