#include "server/calls/call_span.h"

#include <chrono>
#include <string>
#include <utility>

#include "core/base/text.h"
#include "server/transport/addresses.h"

namespace topk {
namespace {

void AddText(Span& span, const char* name, std::string_view text) {
  if (text.empty()) return;
  span.attributes.emplace_back(name, EscapeControls(text.substr(0, kMaxText)));
}

void AddPeer(Span& span, std::string_view peer) {
  const std::string address = topk::AddressOf(peer);
  const bool local = address == kUnixPeer;
  AddText(span, "network.transport", local ? "unix" : "tcp");
  if (!local) AddText(span, "network.peer.address", address);
}

void AddProperties(Span& span, const v1::TopKRequest& request,
                   const RequestStats& stats) {
  for (auto& [name, value] : PropertiesOf(request, stats)) {
    if (auto* text = std::get_if<std::string>(&value)) {
      *text = EscapeControls(*text);
    }
    span.attributes.emplace_back(StrCat("topk.", name), std::move(value));
  }
  if (request.has_tensor()) {
    span.attributes.emplace_back("topk.response_bytes", stats.answer_bytes);
  }
  span.stages = stats.nanoseconds;
  span.stages_end = stats.stages_end();
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
  span.failed = IsFailure(status.code);
  if (span.failed) {
    span.error = EscapeControls(
        std::string_view(status.message).substr(0, kMaxErrorText));
  }
}

}  // namespace

CallSpan::CallSpan(SpanExporter& exporter, std::string_view path,
                   const CallInfo& call, bool many)
    : exporter_(exporter), many_(many) {
  const std::string_view name = path.substr(1);
  span_.trace = call.trace;
  span_.name = name;
  span_.start = call.arrived;
  AddText(span_, "rpc.system", "grpc");
  AddText(span_, "rpc.service", name.substr(0, name.find('/')));
  AddText(span_, "rpc.method", call.method);
  AddPeer(span_, call.context->peer());
}

void CallSpan::AddRequest(const v1::TopKRequest& request,
                          const RequestStats& stats, const Status& status) {
  const int64_t before = requests_++;
  if (!many_) return AddProperties(span_, request, stats);
  if (before >= kMaxRequests) return;
  Span span;
  span.trace = span_.trace;
  span.trace.parent = span_.trace.span;
  span.trace.span = NewTraceId();
  span.of_call = false;
  span.name = "request";
  AddProperties(span, request, stats);
  SetOutcome(span, status);
  span.end = span.stages_end;
  span.start = span.end - std::chrono::nanoseconds(stats.TotalNanoseconds());
  exporter_.Add(std::move(span));
}

void CallSpan::End(const Status& status) {
  span_.attributes.emplace_back("rpc.grpc.status_code",
                                static_cast<int64_t>(status.code));
  if (many_) span_.attributes.emplace_back("topk.requests", requests_.load());
  SetOutcome(span_, status);
  span_.end = Span::Clock::now();
  exporter_.Add(span_);  // not moved: a late request may still read the trace
}

}  // namespace topk
