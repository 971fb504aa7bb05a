#include "server/telemetry/call_span.h"

#include <charconv>
#include <chrono>
#include <string>
#include <utility>

#include "core/base/text.h"
#include "server/telemetry/request_facts.h"
#include "server/transport/peer_name.h"

namespace topk {
namespace {

// Bounds on text chosen by clients, so that they bound a span's memory.
constexpr size_t kMaxAttribute = 256;
constexpr size_t kMaxErrorText = 1024;

void AddText(Span& span, const char* name, std::string_view text) {
  if (text.empty()) return;
  span.attributes.emplace_back(name,
                               EscapeControls(text.substr(0, kMaxAttribute)));
}

void AddNumber(Span& span, const char* name, int64_t number) {
  span.attributes.emplace_back(name, number);
}

void AddPeer(Span& span, std::string_view peer) {
  const std::string address = topk::AddressOf(peer);
  const bool local = address == kUnixPeer;
  AddText(span, "network.transport", local ? "unix" : "tcp");
  if (local) return;
  AddText(span, "network.peer.address", address);
  const std::string_view port = peer.substr(peer.rfind(':') + 1);
  int64_t number = 0;
  const auto result =
      std::from_chars(port.data(), port.data() + port.size(), number);
  if (result.ec == std::errc()) AddNumber(span, "network.peer.port", number);
}

void AddFacts(Span& span, const v1::TopKRequest& request,
              const RequestStats& stats) {
  AddText(span, "topk.request_id", request.request_id());
  // A request that was rejected before it was read has neither.
  if (request.has_spec()) {
    AddText(span, "topk.dialect", DialectOf(request));
    AddNumber(span, "topk.version", request.spec().version());
  }
  if (request.has_tensor()) {
    AddText(span, "topk.dtype", DTypeOf(request));
    if (const auto elements = ElementsOf(request); elements.has_value()) {
      AddNumber(span, "topk.elements", *elements);
    }
    AddNumber(span, "topk.request_bytes", stats.tensor_bytes);
    AddNumber(span, "topk.response_bytes", stats.answer_bytes);
  }
  if (const auto k = KOf(request); k.has_value()) AddNumber(span, "topk.k", *k);
  AddText(span, "topk.backend", stats.backend);
  AddText(span, "topk.kernel", stats.kernel);
  span.stages = stats.nanoseconds;
  span.stages_end = stats.stages_end();
}

// Whether a status is the server's failure, as OpenTelemetry has it. The rest
// is the client's.
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
  if (!many_) return AddFacts(span_, request, stats);
  if (before >= kMaxRequests) return;
  Span span;
  span.trace = span_.trace;
  span.trace.parent = span_.trace.span;
  span.trace.span = NewTraceId();
  span.of_call = false;
  span.name = "request";
  AddFacts(span, request, stats);
  SetOutcome(span, status);
  span.end = span.stages_end;
  span.start = span.end - std::chrono::nanoseconds(stats.TotalNanoseconds());
  exporter_.Add(std::move(span));
}

void CallSpan::End(const Status& status) {
  AddNumber(span_, "rpc.grpc.status_code", static_cast<int64_t>(status.code));
  if (many_) AddNumber(span_, "topk.requests", requests_);
  SetOutcome(span_, status);
  span_.end = Span::Clock::now();
  exporter_.Add(std::move(span_));
}

}  // namespace topk
