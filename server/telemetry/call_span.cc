#include "server/telemetry/call_span.h"

#include <endian.h>

#include <string>
#include <utility>

#include "core/base/text.h"
#include "server/transport/addresses.h"

namespace topk {
namespace {

using Span = SpanExporter::Span;

// Flags of an OTLP span.
constexpr uint32_t kSampled = 1;
constexpr uint32_t kRemoteKnown = 0x100;
constexpr uint32_t kRemote = 0x200;

std::string IdBytes(uint64_t id) {
  const uint64_t bytes = htobe64(id);
  return {reinterpret_cast<const char*>(&bytes), sizeof(bytes)};
}

// The messages of OTLP must be UTF-8.
void Add(Span& span, const std::string& name, const PropertyValue& value) {
  auto& attribute = *span.add_attributes();
  attribute.set_key(name);
  if (const auto* number = std::get_if<int64_t>(&value)) {
    attribute.mutable_value()->set_int_value(*number);
  } else {
    attribute.mutable_value()->set_string_value(
        EscapeControls(std::get<std::string>(value)));
  }
}

void AddText(Span& span, const char* name, std::string_view text) {
  if (!text.empty()) Add(span, name, std::string(text.substr(0, kMaxText)));
}

void AddPeer(Span& span, std::string_view peer) {
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

void SetOutcome(Span& span, const Status& status) {
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
    : exporter_(exporter),
      many_(many),
      trace_(call.trace),
      clock_offset_(std::chrono::system_clock::now().time_since_epoch() -
                    Clock::now().time_since_epoch()) {
  const std::string_view name = path.substr(1);
  Span& span = spans_.emplace_back(
      MakeSpan(name, trace_.span, trace_.parent, call.arrived, call.arrived));
  span.set_kind(Span::SPAN_KIND_SERVER);
  if (trace_.parent != 0) span.set_flags(span.flags() | kRemote);
  AddText(span, "rpc.system", "grpc");
  AddText(span, "rpc.service", name.substr(0, name.find('/')));
  AddText(span, "rpc.method", call.method);
  AddPeer(span, call.context->peer());
}

void CallSpan::AddRequest(const v1::TopKRequest& request,
                          const RequestStats& stats, const Status& status) {
  const int64_t before = requests_++;
  if (!many_) return AddProperties(request, stats, trace_.span, spans_);
  if (before >= kMaxRequests) return;
  const uint64_t id = NewTraceId();
  const Clock::time_point end = stats.stages_end();
  std::vector<Span> spans = {
      MakeSpan("request", id, trace_.span,
               end - std::chrono::nanoseconds(stats.TotalNanoseconds()), end)};
  AddProperties(request, stats, id, spans);
  SetOutcome(spans.front(), status);
  exporter_.Add(std::move(spans));
}

void CallSpan::End(const Status& status) {
  Span& span = spans_.front();
  Add(span, "rpc.grpc.status_code", static_cast<int64_t>(status.code));
  if (many_) Add(span, "topk.requests", requests_.load());
  SetOutcome(span, status);
  span.set_end_time_unix_nano(UnixNanoseconds(Clock::now()));
  exporter_.Add(std::move(spans_));
}

uint64_t CallSpan::UnixNanoseconds(Clock::time_point time) const {
  return static_cast<uint64_t>(
      (time.time_since_epoch() + clock_offset_).count());
}

CallSpan::Span CallSpan::MakeSpan(std::string_view name, uint64_t id,
                                  uint64_t parent, Clock::time_point start,
                                  Clock::time_point end) const {
  Span span;
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

void CallSpan::AddProperties(const v1::TopKRequest& request,
                             const RequestStats& stats, uint64_t id,
                             std::vector<Span>& to) const {
  for (const auto& [name, value] : PropertiesOf(request, stats)) {
    Add(to.front(), StrCat("topk.", name), value);
  }
  if (request.has_tensor()) {
    Add(to.front(), "topk.response_bytes", stats.answer_bytes);
  }
  // There are no gaps between stages.
  Clock::time_point end = stats.stages_end();
  for (size_t i = kStageNames.size(); i-- > 0;) {
    if (stats.nanoseconds[i] < 0) continue;
    const auto start = end - std::chrono::nanoseconds(stats.nanoseconds[i]);
    to.push_back(MakeSpan(kStageNames[i], NewTraceId(), id, start, end));
    end = start;
  }
}

}  // namespace topk
