#include "server/calls/call_span.h"

#include <endian.h>

#include <string>
#include <utility>

#include "core/base/text.h"
#include "server/transport/addresses.h"

namespace topk {
namespace {

using OtlpSpan = SpanExporter::Span;

// Flags of an OTLP span.
constexpr uint32_t kSampled = 1;
constexpr uint32_t kRemoteKnown = 0x100;
constexpr uint32_t kRemote = 0x200;

std::string IdBytes(uint64_t id) {
  const uint64_t bytes = htobe64(id);
  return {reinterpret_cast<const char*>(&bytes), sizeof(bytes)};
}

void AddNumber(OtlpSpan& span, const std::string& name, int64_t number) {
  auto& attribute = *span.add_attributes();
  attribute.set_key(name);
  attribute.mutable_value()->set_int_value(number);
}

void AddText(OtlpSpan& span, const std::string& name, std::string_view text) {
  if (text.empty()) return;
  auto& attribute = *span.add_attributes();
  attribute.set_key(name);
  attribute.mutable_value()->set_string_value(
      EscapeControls(text.substr(0, kMaxText)));
}

void AddPeer(OtlpSpan& span, std::string_view peer) {
  const std::string address = topk::AddressOf(peer);
  const bool local = address == kUnixPeer;
  AddText(span, "network.transport", local ? "unix" : "tcp");
  if (!local) AddText(span, "network.peer.address", address);
}

// Returns whether OpenTelemetry's conventions count a status as a failure of
// the server, not of the client.
bool IsFailure(Code code) {
  return code == Code::kUnknown || code == Code::kDeadlineExceeded ||
         code == Code::kUnimplemented || code == Code::kInternal ||
         code == Code::kUnavailable;
}

void SetOutcome(OtlpSpan& span, const Status& status) {
  AddText(span, "topk.reason", status.reason);
  if (!IsFailure(status.code)) return;
  span.mutable_status()->set_code(
      opentelemetry::proto::trace::v1::Status::STATUS_CODE_ERROR);
  span.mutable_status()->set_message(EscapeControls(
      std::string_view(status.message).substr(0, kMaxErrorText)));
}

}  // namespace

CallSpan::CallSpan(SpanExporter& exporter, std::string_view path,
                   const CallInfo& call, bool many)
    : exporter_(exporter), many_(many), trace_(call.trace) {
  const std::string_view name = path.substr(1);
  Span& span =
      Append(spans_, trace_.span, trace_.parent, name, call.arrived, {});
  span.set_kind(Span::SPAN_KIND_SERVER);
  if (trace_.parent != 0) span.set_flags(span.flags() | kRemote);
  AddText(span, "rpc.system", "grpc");
  AddText(span, "rpc.service", name.substr(0, name.find('/')));
  AddText(span, "rpc.method", call.method);
  AddPeer(span, call.context->peer());
}

uint64_t CallSpan::UnixNanoseconds(Clock::time_point time) const {
  return static_cast<uint64_t>(
      (time.time_since_epoch() + clock_offset_).count());
}

SpanExporter::Span& CallSpan::Append(Spans& spans, uint64_t id, uint64_t parent,
                                     std::string_view name,
                                     Clock::time_point start,
                                     Clock::time_point end) const {
  Span& span = *spans.Add();
  span.set_trace_id(IdBytes(trace_.trace_high) + IdBytes(trace_.trace_low));
  span.set_span_id(IdBytes(id));
  if (parent != 0) span.set_parent_span_id(IdBytes(parent));
  span.set_flags(kSampled | kRemoteKnown);
  span.set_trace_state(trace_.state);
  span.set_name(std::string(name));
  span.set_kind(Span::SPAN_KIND_INTERNAL);
  span.set_start_time_unix_nano(UnixNanoseconds(start));
  span.set_end_time_unix_nano(UnixNanoseconds(end));
  return span;
}

// Adds the properties of a request to the first span, whose id is `id`, and its
// stages as child spans. There are no gaps between stages.
void CallSpan::AddProperties(Spans& spans, uint64_t id,
                             const v1::TopKRequest& request,
                             const RequestStats& stats) const {
  Span& span = *spans.Mutable(0);
  for (const auto& [property, value] : PropertiesOf(request, stats)) {
    const std::string name = StrCat("topk.", property);
    if (const auto* text = std::get_if<std::string>(&value)) {
      AddText(span, name, *text);
    } else {
      AddNumber(span, name, std::get<int64_t>(value));
    }
  }
  if (request.has_tensor()) {
    AddNumber(span, "topk.response_bytes", stats.answer_bytes);
  }
  Clock::time_point end = stats.stages_end();
  for (size_t i = kStageNames.size(); i-- > 0;) {
    if (stats.nanoseconds[i] < 0) continue;
    const auto start = end - std::chrono::nanoseconds(stats.nanoseconds[i]);
    Append(spans, NewTraceId(), id, kStageNames[i], start, end);
    end = start;
  }
}

void CallSpan::AddRequest(const v1::TopKRequest& request,
                          const RequestStats& stats, const Status& status) {
  const int64_t before = requests_++;
  if (!many_) return AddProperties(spans_, trace_.span, request, stats);
  if (before >= kMaxRequests) return;
  Spans spans;
  const uint64_t id = NewTraceId();
  const Clock::time_point end = stats.stages_end();
  Span& span =
      Append(spans, id, trace_.span, "request",
             end - std::chrono::nanoseconds(stats.TotalNanoseconds()), end);
  AddProperties(spans, id, request, stats);
  SetOutcome(span, status);
  exporter_.Add(std::move(spans));
}

void CallSpan::End(const Status& status) {
  Span& span = *spans_.Mutable(0);
  AddNumber(span, "rpc.grpc.status_code", static_cast<int64_t>(status.code));
  if (many_) AddNumber(span, "topk.requests", requests_);
  SetOutcome(span, status);
  span.set_end_time_unix_nano(UnixNanoseconds(Clock::now()));
  exporter_.Add(std::move(spans_));
}

}  // namespace topk
