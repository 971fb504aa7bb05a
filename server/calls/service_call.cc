#include "server/calls/service_call.h"

#include <iterator>
#include <string>

#include "core/wire/methods.h"
#include "server/calls/status_map.h"

namespace topk {

ServiceCall::ServiceCall(TopKService& service, EventLoop& loop,
                         const CallMethod& method, Kind kind)
    : Call(loop, method),
      service_(service),
      path_(method.path),
      kind_(kind),
      info_{&context_, NameOf(method.path), {}, {}, "", nullptr} {}

ServiceCall::~ServiceCall() {
  if (stream_.has_value()) service_.open_calls().RemoveStream(*stream_);
  if (arrived_) service_.open_calls().Leave();
}

Status ServiceCall::CheckAlive() const {
  if (!cancellation_.cancelled()) return {};
  if (PastDeadline()) {
    return {Code::kDeadlineExceeded, "DEADLINE_EXCEEDED", "",
            "the call's deadline has passed"};
  }
  return Cancelled();
}

void ServiceCall::Read() {
  // While messages that have arrived are read, the completion queue is never
  // empty, and gRPC does not poll other connections.
  constexpr int kTurn = 256;
  if (++reads_ % kTurn == 0) {
    loop_.AfterPoll([this, self = shared_from_this()] { StartRead(); });
  } else {
    StartRead();
  }
}

void ServiceCall::Write(const grpc::ByteBuffer& message,
                        grpc::WriteOptions options) {
  ReturnTrace();
  StartWrite(message, options);
}

void ServiceCall::Finish(const grpc::ByteBuffer& last) {
  ReturnTrace();
  RecordEnd({});
  StartFinish(last);
}

void ServiceCall::Finish(const Status& status) {
  RecordEnd(status);
  SendStatus(status);
}

void ServiceCall::RecordEnd(const Status& status) {
  count().Handled(static_cast<int>(status.code));
  if (span_ != nullptr) span_->End(status);
}

void ServiceCall::FinishIncomplete(const Status& status) {
  incomplete_ = status;
  SendStatus(status);
  ReportIncomplete();
}

// The second of two to come here reports.
void ServiceCall::ReportIncomplete() {
  WidenRace();
  if (ends_++ == 0) return;
  const Status gone = CheckAlive();
  const Status& status = gone.ok() ? incomplete_ : gone;
  RecordIncomplete(status);
  RecordEnd(status);
}

void ServiceCall::RecordIncomplete(const Status& status) {
  RequestStats stats;
  stats.begun = info_.arrived;
  service_.Record(info_, {}, stats, status);
}

void ServiceCall::SendStatus(const Status& status) {
  const auto wait = status.retry_after.count();
  if (status.code == Code::kResourceExhausted || wait > 0) {
    // Clients of gRPC that retry obey it; -1 forbids a retry.
    context_.AddTrailingMetadata("grpc-retry-pushback-ms",
                                 std::to_string(wait > 0 ? wait : -1));
  }
  // Without a message there are trailers only: gRPC 1.83 then drops initial
  // metadata, and 1.51 sends it in headers, after which clients do not retry.
  if (!trace_parent_.empty()) {
    context_.AddTrailingMetadata("traceparent", trace_parent_);
  }
  StartFinish(ToGrpcStatus(status));
}

void ServiceCall::OnArrival() {
  arrived_ = true;
  info_.arrived = count().start();
  service_.open_calls().Enter();
  ContinueTrace();
  const Status status = service_.admission().AdmitCall(context_, admitted_);
  if (admitted_.caller.authenticated) info_.principal = admitted_.caller.name;
  if (!status.ok()) return Refuse(status);
  Read();
  if (kind_ == Kind::kUnary) return;
  (void)context_.auth_context();  // caches it before threads share `context_`
  stream_ = service_.open_calls().AddStream(
      std::shared_ptr<OpenStream>(shared_from_this(), this));
  Recheck();  // the server may have changed since AdmitCall()
}

void ServiceCall::Recheck() {
  const Status status = service_.admission().CheckAdmitted(context_);
  if (status.ok()) return;
  Interrupt(status);
  // A client that does not read its responses would keep a revoked stream open.
  // During a drain it may do so until the timeout.
  const bool drains = status.code == Code::kUnavailable;
  if (!drains && revoked_.exchange(true)) context_.TryCancel();
}

void ServiceCall::Refuse(const Status& status) {
  ServiceCall::RecordIncomplete(status);
  Finish(status);
}

void ServiceCall::ContinueTrace() {
  // Returns a header's value, "" if it is not there exactly once.
  const auto header = [this](const char* name) -> std::string {
    const auto [first, last] = context_.client_metadata().equal_range(name);
    if (first == last || std::next(first) != last) return "";
    return {first->second.data(), first->second.size()};
  };
  const std::string parent = header("traceparent");
  info_.trace =
      topk::ContinueTrace(parent, parent.empty() ? "" : header("tracestate"));
  SpanExporter* const spans = service_.spans();
  if (spans != nullptr && spans->Samples(info_.trace)) {
    span_ =
        std::make_unique<CallSpan>(*spans, path_, info_, kind_ == Kind::kMany);
    info_.span = span_.get();
  }
  if (info_.trace.parent == 0) return;
  trace_parent_ = ToTraceParent(info_.trace);
}

void ServiceCall::ReturnTrace() {
  if (trace_parent_.empty()) return;
  context_.AddInitialMetadata("traceparent", trace_parent_);
  trace_parent_.clear();
}

void ServiceCall::OnEnd() {
  if (context_.IsCancelled()) cancellation_.Cancel();
  ReportIncomplete();
}

}  // namespace topk
