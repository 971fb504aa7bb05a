#include "server/calls/call.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "core/wire/methods.h"
#include "server/calls/status_map.h"

namespace topk {

Call::Call(TopKService& service, EventLoop& loop, RawMethod method)
    : EventSource(loop),
      service_(service),
      kind_(method),
      info_{&context_, NameOf(method.path), {}, {}, ""},
      method_(service.rpc_metrics().Find(method.path)) {}

Call::~Call() {
  if (count_.has_value()) service_.open_calls().Leave();
}

void Call::Wait() {
  const std::shared_ptr<Call> self = shared_from_this();
  context_.AsyncNotifyWhenDone(ended_.For(self));
  kind_.service.Request(kind_.index, context_, stream_, loop_.queue(),
                        arrived_.For(self));
}

Status Call::CheckAlive() const {
  if (!cancellation_.cancelled()) return {};
  // A client cancels at its own deadline. This one is later by the time that
  // the headers took, and by gRPC's rounding.
  constexpr std::chrono::milliseconds kEarly{10};
  if (context_.deadline() <= std::chrono::system_clock::now() + kEarly) {
    return {Code::kDeadlineExceeded, "DEADLINE_EXCEEDED", "",
            "the call's deadline has passed"};
  }
  return Cancelled();
}

void Call::Read() {
  // Messages that have arrived are read without a look at other connections:
  // as long as there are any, the queue is never empty. So a worker begins the
  // first read of each turn, and the poller looks around.
  constexpr int kTurn = 256;
  if (++reads_ % kTurn == 0) {
    Enqueue(0, [this](WorkQueue::Job&) { StartRead(); });
  } else {
    StartRead();
  }
}

void Call::StartRead() {
  WidenRace();
  stream_.Read(&incoming_, read_.For(shared_from_this()));
}

void Call::Write(const grpc::ByteBuffer& message, grpc::WriteOptions options) {
  ReturnTrace();
  count_->Sent();
  stream_.Write(message, options, written_.For(shared_from_this()));
}

void Call::Finish(const grpc::ByteBuffer& last) {
  ReturnTrace();
  count_->Sent();
  count_->Handled(grpc::StatusCode::OK);
  stream_.WriteAndFinish(last, {}, grpc::Status::OK,
                         finished_.For(shared_from_this()));
}

void Call::Finish(const Status& status) {
  count_->Handled(static_cast<int>(status.code));
  SendStatus(status);
}

void Call::FinishIncomplete(const Status& status) {
  incomplete_ = status;
  SendStatus(status);
  ReportIncomplete();
}

// The second of two to come here reports.
void Call::ReportIncomplete() {
  WidenRace();
  if (ends_++ == 0) return;
  const Status gone = CheckAlive();
  const Status& status = gone.ok() ? incomplete_ : gone;
  count_->Handled(static_cast<int>(status.code));
  RecordIncomplete(status);
}

void Call::RecordIncomplete(const Status& status) {
  RequestStats stats;
  stats.begun = info_.arrived;
  service_.Record(info_, {}, stats, status);
}

void Call::SendStatus(const Status& status) {
  const grpc::Status end = ToGrpcStatus(status);
  if (status.code == Code::kResourceExhausted) {
    // gRPC's clients obey it if they retry; a negative one is not to.
    const auto wait = status.retry_after.count();
    context_.AddTrailingMetadata("grpc-retry-pushback-ms",
                                 std::to_string(wait > 0 ? wait : -1));
  }
  // Without a message there are trailers only: gRPC 1.83 then drops initial
  // metadata, and 1.51 sends it in headers, after which clients do not retry.
  if (!trace_parent_.empty()) {
    context_.AddTrailingMetadata("traceparent", trace_parent_);
  }
  stream_.Finish(end, finished_.For(shared_from_this()));
}

void Call::Arrive(bool ok) {
  if (!ok) {  // the server shuts down; `ended_` does not come for such
    ended_.Drop();
    return;
  }
  WidenRace();
  count_.emplace(method_);
  info_.arrived = count_->start();
  service_.open_calls().Enter();
  ContinueTrace();
  Accept();
  WidenRace();
  const Status status = service_.admission().AdmitCall(context_, admitted_);
  if (admitted_.caller.authenticated) info_.principal = admitted_.caller.name;
  status.ok() ? Read() : Refuse(status);
}

void Call::Refuse(const Status& status) {
  RecordIncomplete(status);
  Finish(status);
}

void Call::ContinueTrace() {
  // Returns a header's value, "" if it is not there exactly once.
  const auto header = [this](const char* name) -> std::string {
    const auto [first, last] = context_.client_metadata().equal_range(name);
    if (first == last || std::next(first) != last) return "";
    return {first->second.data(), first->second.size()};
  };
  const std::string parent = header("traceparent");
  info_.trace =
      topk::ContinueTrace(parent, parent.empty() ? "" : header("tracestate"));
  if (info_.trace.parent == 0) return;
  trace_parent_ = ToTraceParent(info_.trace);
}

void Call::ReturnTrace() {
  if (trace_parent_.empty()) return;
  context_.AddInitialMetadata("traceparent", trace_parent_);
  trace_parent_.clear();
}

void Call::End(bool) {
  if (context_.IsCancelled()) cancellation_.Cancel();
  ReportIncomplete();
}

void Call::OnRead(bool ok) {
  if (ok) count_->Received();
  Received(ok, incoming_);
}

void Call::OnWritten(bool ok) { Sent(ok); }

}  // namespace topk
